// SPDX-License-Identifier: Apache-2.0
//! Requests a URL ten times at once: `get_tokio URL CA-FILE [PATH]...`

use std::{env, error::Error};
use weir_quic::{Request, tokio::Client, tokio::connect};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let usage = "usage: get_tokio URL CA-FILE [PATH]...";
    let (url, ca) = (args.next().ok_or(usage)?, args.next().ok_or(usage)?);
    let settings = args.fold(Client::builder().ca(ca), |settings, path| settings.path(path));
    let connection = connect(&settings.build()?, &url).await?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let connection = connection.clone();
        tasks.spawn(async move {
            let response = connection.request(Request::get(connection.url_path())).await?;
            response.bytes(10_000_000).await
        });
    }
    while let Some(bytes) = tasks.join_next().await {
        println!("{} bytes over {}", bytes??.len(), connection.status().path);
    }
    Ok(())
}
