// SPDX-License-Identifier: Apache-2.0
//! The service as tonic calls it.
use super::Service;
use crate::p4runtime::messages::error::StatusBudget;
use crate::p4runtime::proto::p4::v1::{
    self as pb, StreamMessageRequest, StreamMessageResponse, p4_runtime_server::P4Runtime,
};
use crate::p4runtime::read::answer::Reading;
use crate::p4runtime::transport::access::Caller;
use crate::p4runtime::transport::admission::Place;
use std::sync::Arc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// The version of the interface that is served.
pub const API_VERSION: &str = "1.4.0";

/// The service as tonic calls it.
pub struct Server(pub Arc<Service>);

/// Runs a change to its end even when its caller goes away meanwhile; it keeps its place as long.
async fn whole<T: Send + 'static>(
    place: Option<Place>,
    f: impl std::future::Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    let kept = async move {
        let result = f.await;
        drop(place);
        result
    };
    tokio::spawn(kept).await.unwrap_or_else(|e| Err(Status::internal(format!("the request failed: {e}"))))
}

#[tonic::async_trait]
impl P4Runtime for Server {
    type ReadStream = Reading;
    type StreamChannelStream = ReceiverStream<Result<StreamMessageResponse, Status>>;

    async fn write(&self, request: Request<pb::WriteRequest>) -> Result<Response<pb::WriteResponse>, Status> {
        let service = self.0.clone();
        let budget = StatusBudget::of(request.metadata());
        let (place, caller) = (request.extensions().get().cloned(), Caller::found(request.extensions()));
        whole(place, async move { service.write(request.into_inner(), budget, &caller).await }).await?;
        Ok(Response::new(pb::WriteResponse {}))
    }

    async fn read(&self, request: Request<pb::ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let budget = StatusBudget::of(request.metadata());
        self.0.clone().read(request.into_inner(), budget).await.map(Response::new)
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<pb::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<pb::SetForwardingPipelineConfigResponse>, Status> {
        let (place, caller) = (request.extensions().get().cloned(), Caller::found(request.extensions()));
        whole(place, self.0.clone().set(request.into_inner(), caller)).await?;
        Ok(Response::new(pb::SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<pb::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<pb::GetForwardingPipelineConfigResponse>, Status> {
        self.0.get(request.into_inner()).await.map(Response::new)
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let (id, out) = self.0.open()?;
        let caller = Caller::found(request.extensions());
        tokio::spawn(self.0.clone().stream(id, request.into_inner(), caller));
        Ok(Response::new(ReceiverStream::new(out)))
    }

    async fn capabilities(
        &self,
        request: Request<pb::CapabilitiesRequest>,
    ) -> Result<Response<pb::CapabilitiesResponse>, Status> {
        let id = request.into_inner().device_id;
        if id != 0 {
            self.0.device(id).map_err(|e| e.status())?;
        }
        let p4runtime_api_version = API_VERSION.to_string();
        Ok(Response::new(pb::CapabilitiesResponse { p4runtime_api_version, experimental: None }))
    }
}
