//! Responses.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode, header::RETRY_AFTER};

use super::{
    failure::{HttpError, HttpErrorKind, ResponseStatus},
    redactor::Redactor,
};

pub(crate) struct Response {
    pub(crate) status: StatusCode,
    /// Headers and trailers.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Response {
    /// The response if its status is a success.
    pub(crate) fn into_success(self, redactor: &Redactor) -> Result<Self, HttpError> {
        if self.status.is_success() {
            return Ok(self);
        }
        let status = self.status.as_u16();
        Err(HttpError::Status {
            kind: HttpErrorKind::of_status(status),
            status: ResponseStatus::Http(status),
            message: redactor.show(&String::from_utf8_lossy(&self.body)),
            retry_after: self.retry_after(),
        })
    }

    /// Value of `Retry-After`, which is a number of seconds or a date.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let date = httpdate::parse_http_date(text).ok()?;
        Some(date.duration_since(SystemTime::now()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let retry_after = |text: &str| {
            let response = Response {
                status: StatusCode::TOO_MANY_REQUESTS,
                headers: HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]),
                body: Bytes::new(),
            };
            response.retry_after()
        };
        assert_eq!(retry_after("120"), Some(Duration::from_secs(120)));
        assert_eq!(retry_after(" 0 "), Some(Duration::ZERO));
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(600));
        let until_date = retry_after(&date).unwrap();
        assert!(until_date > Duration::from_secs(300) && until_date <= Duration::from_secs(600));
        assert_eq!(
            retry_after("Thu, 01 Jan 1970 00:00:00 GMT"),
            Some(Duration::ZERO)
        );
        for text in ["", "-1", "soon", "1.5", "99999999999999999999"] {
            assert_eq!(retry_after(text), None, "{text}");
        }
    }
}
