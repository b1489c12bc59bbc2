//! Has tonic generate a service with a method of each kind. Its messages are bytes, so no compiler of protocol buffers is needed.

use tonic_build::manual::{Builder, Method, MethodBuilder, Service};

fn main() {
    let method = |name: &str, route: &str| -> MethodBuilder {
        let bytes = "::bytes::Bytes";
        Method::builder()
            .name(name)
            .route_name(route)
            .input_type(bytes)
            .output_type(bytes)
            .codec_path("crate::Raw")
    };
    let echo = Service::builder()
        .package("world")
        .name("Echo")
        .method(method("one", "One").build())
        .method(method("split", "Split").server_streaming().build())
        .method(method("join", "Join").client_streaming().build())
        .method(method("each", "Each").client_streaming().server_streaming().build());
    Builder::new().compile(&[echo.build()]);
}
