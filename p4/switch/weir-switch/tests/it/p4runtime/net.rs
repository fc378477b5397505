// SPDX-License-Identifier: Apache-2.0
//! A switch without interfaces, its server, and a controller.
use prost::Message as _;
use rustix::event::{PollFd, PollFlags};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use weir_p4::p4info::proto::P4Info;
use weir_switch::device::{Config, Device};
use weir_switch::handle::{self, Handle};
use weir_switch::p4runtime::proto::google;
use weir_switch::p4runtime::proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use weir_switch::p4runtime::proto::p4::v1::{self as v1, entity::Entity as E, update::Type};
use weir_switch::p4runtime::{Access, Audit, Running, ServeConfig, Tls, listen};

pub const PROGRAM: &str = include_str!("entities.p4");
pub const CPU: u32 = 255;
pub const DEVICE: u64 = 3;

pub type Frames = Vec<(u32, Vec<u8>)>;

/// The switch; its thread ends with the last handle.
pub struct Net {
    pub running: Running,
    handle: Handle,
    sent: Arc<Mutex<Frames>>,
}

impl Net {
    pub fn start() -> Net {
        Net::with(None)
    }

    pub fn with(tls: Option<Tls>) -> Net {
        Net::for_clients(tls, None, Audit::none())
    }

    pub fn for_clients(tls: Option<Tls>, access: Option<Access>, audit: Audit) -> Net {
        let (handle, jobs) = handle::channel().unwrap();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let out = sent.clone();
        let mut device = Device::new(Config { cpu_port: Some(CPU), seed: 7, ..Default::default() });
        let events = device.subscribe();
        std::thread::spawn(move || {
            let start = std::time::Instant::now();
            loop {
                // Nothing here is late by a millisecond in a way that a test could see.
                let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
                rustix::event::poll(&mut [PollFd::from_borrowed_fd(jobs.fd(), PollFlags::IN)], Some(&wait)).unwrap();
                device.tick(start.elapsed().as_nanos() as u64);
                while jobs.run_one(&mut device) {}
                let now_ns = device.now_ns();
                device.poll(now_ns, &mut *out.lock().unwrap());
            }
        });
        let addr = "127.0.0.1:0".parse().unwrap();
        let max_state_bytes = weir_switch::p4runtime::STATE_BYTES;
        let config = ServeConfig { addr, device_id: DEVICE, cpu_port: Some(CPU), tls, max_state_bytes, access };
        let running = listen(config).unwrap().serve(handle.clone(), events, None, audit).unwrap();
        Net { running, handle, sent }
    }

    /// A frame arrives; returns the switch's frames because of it and before.
    pub async fn frame(&self, port: u32, frame: Vec<u8>) -> Frames {
        let sent = self.sent.clone();
        let job = move |d: &mut Device| {
            let now_ns = d.now_ns();
            d.arrive(&frame, port, now_ns, &mut *sent.lock().unwrap());
            std::mem::take(&mut *sent.lock().unwrap())
        };
        self.handle.call(job).await.unwrap()
    }

    /// Sets the device's clock forward; it stands still until real time is there too.
    pub async fn pass(&self, ns: u64) {
        let job = move |d: &mut Device| {
            let now_ns = d.now_ns();
            d.tick(now_ns + ns);
        };
        self.handle.call(job).await.unwrap();
    }

    /// Keeps the packet thread until the returned sender is dropped.
    pub fn hold(&self) -> std::sync::mpsc::Sender<()> {
        let (held, released) = std::sync::mpsc::channel::<()>();
        let handle = self.handle.clone();
        tokio::spawn(async move {
            let wait = move |_: &mut Device| {
                // The release is the end of all senders.
                let _ = released.recv();
            };
            handle.call(wait).await.unwrap();
        });
        held
    }

    /// Waits until the switch has sent something.
    pub async fn sent(&self) -> Frames {
        loop {
            let frames = std::mem::take(&mut *self.sent.lock().unwrap());
            if !frames.is_empty() {
                return frames;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    pub async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.running.addr)).unwrap();
        endpoint.http2_max_header_list_size(1 << 20).connect().await.unwrap()
    }

    pub async fn client(&self) -> P4RuntimeClient<Channel> {
        P4RuntimeClient::new(self.channel().await).max_decoding_message_size(64 << 20)
    }

    /// A controller that is primary and has set the program.
    pub async fn ready() -> (Net, Controller) {
        let net = Net::start();
        let mut c = Controller::primary(&net, 1).await;
        c.set_program(PROGRAM).await.unwrap();
        (net, c)
    }
}

pub fn ethernet(dst: u64, src: u64, kind: u16) -> Vec<u8> {
    let mut f = dst.to_be_bytes()[2..].to_vec();
    f.extend_from_slice(&src.to_be_bytes()[2..]);
    f.extend_from_slice(&kind.to_be_bytes());
    f.extend_from_slice(b"payload");
    f
}

pub struct Controller {
    pub client: P4RuntimeClient<Channel>,
    pub to: mpsc::Sender<v1::StreamMessageRequest>,
    pub from: Streaming<v1::StreamMessageResponse>,
    pub election: u64,
    pub role: String,
    pub info: P4Info,
}

pub fn arbitration(role: &str, election: Option<u64>) -> v1::StreamMessageRequest {
    let role = (!role.is_empty()).then(|| v1::Role { name: role.into(), ..Default::default() });
    let election_id = election.map(|low| v1::Uint128 { high: 0, low });
    let a = v1::MasterArbitrationUpdate { device_id: DEVICE, role, election_id, status: None };
    v1::StreamMessageRequest { update: Some(v1::stream_message_request::Update::Arbitration(a)) }
}

impl Controller {
    /// A stream on which an arbitration update was sent.
    pub async fn open(net: &Net, role: &str, election: Option<u64>) -> Controller {
        Controller::over(net.client().await, role, election).await
    }

    /// The same by a client that there is already.
    pub async fn over(mut client: P4RuntimeClient<Channel>, role: &str, election: Option<u64>) -> Controller {
        let (to, rx) = mpsc::channel(64);
        to.send(arbitration(role, election)).await.unwrap();
        let from = client.stream_channel(ReceiverStream::new(rx)).await.unwrap().into_inner();
        let (election, role) = (election.unwrap_or(0), role.to_string());
        Controller { client, to, from, election, role, info: P4Info::default() }
    }

    pub async fn primary(net: &Net, election: u64) -> Controller {
        let mut c = Controller::open(net, "", Some(election)).await;
        assert_eq!(c.status().await, Code::Ok as i32);
        c
    }

    pub async fn next(&mut self) -> v1::stream_message_response::Update {
        self.from.message().await.unwrap().expect("the stream goes on").update.unwrap()
    }

    /// The status in the next message, which must be about arbitration.
    pub async fn status(&mut self) -> i32 {
        match self.next().await {
            v1::stream_message_response::Update::Arbitration(a) => a.status.unwrap().code,
            other => panic!("{other:?} is not about arbitration"),
        }
    }

    pub fn election_id(&self) -> Option<v1::Uint128> {
        Some(v1::Uint128 { high: 0, low: self.election })
    }

    pub async fn set(
        &mut self,
        action: v1::set_forwarding_pipeline_config_request::Action,
        config: Option<v1::ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        let request = v1::SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            role: self.role.clone(),
            election_id: self.election_id(),
            action: action as i32,
            config,
            ..Default::default()
        };
        self.client.set_forwarding_pipeline_config(request).await.map(|_| ())
    }

    pub async fn get(
        &mut self,
        kind: v1::get_forwarding_pipeline_config_request::ResponseType,
    ) -> Option<v1::ForwardingPipelineConfig> {
        let request = v1::GetForwardingPipelineConfigRequest { device_id: DEVICE, response_type: kind as i32 };
        self.client.get_forwarding_pipeline_config(request).await.unwrap().into_inner().config
    }

    pub async fn set_program(&mut self, text: &str) -> Result<(), Status> {
        let config = v1::ForwardingPipelineConfig { p4_device_config: text.to_string().into(), ..Default::default() };
        self.set(v1::set_forwarding_pipeline_config_request::Action::VerifyAndCommit, Some(config)).await?;
        self.info =
            self.get(v1::get_forwarding_pipeline_config_request::ResponseType::All).await.unwrap().p4info.unwrap();
        Ok(())
    }

    /// Id of any object by its name without the control's.
    pub fn id(&self, name: &str) -> u32 {
        let i = &self.info;
        let all = (i.tables.iter().map(|x| &x.preamble))
            .chain(i.actions.iter().map(|x| &x.preamble))
            .chain(i.counters.iter().map(|x| &x.preamble))
            .chain(i.meters.iter().map(|x| &x.preamble))
            .chain(i.registers.iter().map(|x| &x.preamble))
            .chain(i.digests.iter().map(|x| &x.preamble))
            .chain(i.value_sets.iter().map(|x| &x.preamble))
            .chain(i.action_profiles.iter().map(|x| &x.preamble));
        let mut found = all.flatten().filter(|p| p.name == name || p.name.ends_with(&format!(".{name}")));
        found.next().unwrap_or_else(|| panic!("no {name} in the P4Info")).id
    }

    pub async fn write_with(
        &mut self,
        updates: Vec<v1::Update>,
        atomicity: v1::write_request::Atomicity,
    ) -> Result<(), Status> {
        let request = v1::WriteRequest {
            device_id: DEVICE,
            role: self.role.clone(),
            election_id: self.election_id(),
            updates,
            atomicity: atomicity as i32,
            ..Default::default()
        };
        self.client.write(roomy(request)).await.map(|_| ())
    }

    pub async fn write(&mut self, kind: Type, entity: E) -> Result<(), Status> {
        self.write_with(vec![update(kind, entity)], v1::write_request::Atomicity::ContinueOnError).await
    }

    pub async fn insert(&mut self, entity: E) {
        self.write(Type::Insert, entity).await.unwrap();
    }

    pub async fn modify(&mut self, entity: E) {
        self.write(Type::Modify, entity).await.unwrap();
    }

    /// Code and message of an update that must fail.
    pub async fn refused(&mut self, kind: Type, entity: E) -> (Code, String) {
        let status = self.write(kind, entity).await.unwrap_err();
        errors(&status).remove(0)
    }

    pub async fn try_read(&mut self, entities: Vec<E>) -> Result<Vec<E>, Status> {
        let entities = entities.into_iter().map(|e| v1::Entity { entity: Some(e) }).collect();
        let request = v1::ReadRequest { device_id: DEVICE, role: String::new(), entities };
        let mut stream = self.client.read(roomy(request)).await?.into_inner();
        let mut out = Vec::new();
        while let Some(r) = stream.message().await? {
            out.extend(r.entities.into_iter().map(|e| e.entity.unwrap()));
        }
        Ok(out)
    }

    pub async fn read(&mut self, entity: E) -> Vec<E> {
        self.try_read(vec![entity]).await.unwrap()
    }
}

/// A request of a client that takes long statuses.
fn roomy<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("weir-status-bytes", "1000000".parse().unwrap());
    request
}

pub fn update(kind: Type, entity: E) -> v1::Update {
    v1::Update { r#type: kind as i32, entity: Some(v1::Entity { entity: Some(entity) }) }
}

/// The `p4.v1.Error`s of a batch.
pub fn errors(status: &Status) -> Vec<(Code, String)> {
    assert_eq!(status.code(), Code::Unknown, "{status:?}");
    let rpc = google::rpc::Status::decode(status.details()).unwrap();
    assert_eq!((rpc.code, rpc.message.as_str()), (Code::Unknown as i32, status.message()));
    let one = |any: &prost_types::Any| {
        assert_eq!(any.type_url, "type.googleapis.com/p4.v1.Error");
        let e = v1::Error::decode(any.value.as_slice()).unwrap();
        (Code::from_i32(e.canonical_code), e.message)
    };
    rpc.details.iter().map(one).collect()
}

pub fn action(c: &Controller, name: &str, args: &[&[u8]]) -> v1::Action {
    let param = |(i, v): (usize, &&[u8])| v1::action::Param { param_id: i as u32 + 1, value: v.to_vec() };
    v1::Action { action_id: c.id(name), params: args.iter().enumerate().map(param).collect() }
}

pub fn run(a: v1::Action) -> Option<v1::TableAction> {
    Some(v1::TableAction { r#type: Some(v1::table_action::Type::Action(a)) })
}

pub fn lpm(value: &[u8], prefix_len: i32) -> v1::FieldMatch {
    let m = v1::field_match::Lpm { value: value.to_vec(), prefix_len };
    v1::FieldMatch { field_id: 1, field_match_type: Some(v1::field_match::FieldMatchType::Lpm(m)) }
}

pub fn exact(field_id: u32, value: &[u8]) -> v1::FieldMatch {
    let m = v1::field_match::Exact { value: value.to_vec() };
    v1::FieldMatch { field_id, field_match_type: Some(v1::field_match::FieldMatchType::Exact(m)) }
}

/// An entry of table `route`: all frames to 0xAA0000000000/8 and so on.
pub fn route(c: &Controller, top: u8, a: v1::Action) -> v1::TableEntry {
    let value = [top, 0, 0, 0, 0, 0];
    v1::TableEntry { table_id: c.id("route"), r#match: vec![lpm(&value, 8)], action: run(a), ..Default::default() }
}
