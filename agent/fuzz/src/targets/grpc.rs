//! Responses of gRPC calls: status, details, time to wait, message.

use crate::input::Input;

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let status = 200 + u16::from(input.byte());
    let headers = input.sized();
    let body = input.rest();
    let message = agent::fuzzing::grpc_response(status, headers, body);
    assert!(message.is_none_or(|message| message.len() <= body.len()));
}
