//! What to do about a TLS connection that failed, by the keys of the configuration.

use std::{error::Error, io};

use rustls::{AlertDescription, CertificateError, Error as TlsError, InvalidMessage};

/// Appended to the message of an error: nothing where it says all that can be done.
pub(super) fn advice(error: &(dyn Error + 'static)) -> &'static str {
    let found = tls_error(error).and_then(|error| match error {
        TlsError::InvalidCertificate(problem) => of_certificate(problem),
        TlsError::AlertReceived(alert) => of_alert(*alert),
        TlsError::InvalidMessage(InvalidMessage::InvalidContentType) => Some(
            "; the server may not speak TLS at this port: then its `url` begins with `http://`",
        ),
        _ => None,
    });
    found.unwrap_or_default()
}

/// The TLS error in one of the network.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a TlsError> {
    error.downcast_ref().or_else(|| {
        let error: &io::Error = error.downcast_ref()?;
        error.get_ref()?.downcast_ref()
    })
}

/// Of a certificate of the server.
fn of_certificate(problem: &CertificateError) -> Option<&'static str> {
    Some(match problem {
        // Of an authority that has the name of a trusted one, and another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "; if it is the right server, give the certificate of its authority as `ca_file`"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "; the `url` must have a name that is in the server's certificate"
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "; the server needs a new certificate, or the clock of one of the two is wrong"
        }
        // As `openssl req -x509` makes them. The library of rustls has no public name for it.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "; its certificate is that of an authority: the server needs one with `basicConstraints=CA:FALSE`"
        }
        _ => return None,
    })
}

/// Of what the server says of the client.
fn of_alert(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::CertificateRequired => {
            "; it wants a certificate of its clients: give `cert_file` and `key_file`"
        }
        AlertDescription::HandshakeFailure => {
            "; it may want a certificate of its clients, which is given as `cert_file` and `key_file`"
        }
        // The first one also where there is none, up to TLS 1.2.
        AlertDescription::BadCertificate
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::DecryptError
        | AlertDescription::UnknownCA
        | AlertDescription::UnsupportedCertificate => {
            "; it does not accept the certificate in `cert_file`, or wants one"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_found_in_one_of_the_network() {
        let alert = TlsError::AlertReceived(AlertDescription::CertificateRequired);
        let of_network = io::Error::other(alert.clone());
        assert!(advice(&alert).contains("`cert_file`"));
        assert_eq!(advice(&of_network), advice(&alert));
        let closed = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(advice(&closed), "");
    }
}
