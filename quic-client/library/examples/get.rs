// SPDX-License-Identifier: Apache-2.0
//! Requests a URL ten times: `get URL CA-FILE [PATH]...`

use std::{env, error::Error, io};
use weir_quic::{Client, Request};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let usage = "usage: get URL CA-FILE [PATH]...";
    let (url, ca) = (args.next().ok_or(usage)?, args.next().ok_or(usage)?);
    let settings = args.fold(Client::builder().ca(ca), |settings, path| settings.path(path));
    let connection = settings.build()?.connect(&url)?;
    for _ in 0..10 {
        let mut response = connection.request(Request::get(connection.url_path()))?;
        let bytes = io::copy(&mut response, &mut io::sink())?;
        println!("{}: {bytes} bytes over {}", response.status(), connection.status().path);
    }
    connection.close();
    Ok(())
}
