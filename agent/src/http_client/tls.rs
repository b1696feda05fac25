//! Whom we trust, and what we show.
//!
//! Certificates are read at the first connection and again when their files have changed, so that
//! neither a certificate that is renewed nor one that comes late needs a restart.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use super::{
    config::TlsConfig,
    failure::HttpError,
    secret::{Stamp, read_file, stamp, unusable},
};

/// What is spoken through TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, which gRPC needs.
    Http2,
}

/// What a connection needs to know.
#[derive(Debug)]
pub(super) struct Tls {
    config: TlsConfig,
    version: HttpProtocol,
    /// What was made of the files, and what these were.
    made: Option<(Vec<Stamp>, Arc<ClientConfig>)>,
}

impl Tls {
    pub(super) fn new(config: TlsConfig, version: HttpProtocol) -> Self {
        Self {
            config,
            version,
            made: None,
        }
    }

    /// What the files say now. May wait for a disk.
    pub(super) fn client_config(&mut self) -> Result<Arc<ClientConfig>, HttpError> {
        let client = self.config.client.iter();
        let client = client.flat_map(|client| [&client.certificate_file, &client.key_file]);
        let files = self.config.ca_file.iter().chain(client);
        let stamps: Vec<_> = files.map(|path| stamp(path)).collect::<Result<_, _>>()?;
        if let Some((of, made)) = &self.made
            && *of == stamps
        {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(self.make()?);
        self.made = Some((stamps, Arc::clone(&made)));
        Ok(made)
    }

    fn make(&self) -> Result<ClientConfig, HttpError> {
        let address = || "anybody".to_owned();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|source| HttpError::Tls {
                address: address(),
                source: source.into(),
            })?
            .with_root_certificates(self.roots()?);
        let mut config = match &self.config.client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let certificates = read_file(&client.certificate_file)?;
                let certificates = CertificateDer::pem_slice_iter(&certificates)
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|error| unusable(&client.certificate_file, error))?;
                let key = PrivateKeyDer::from_pem_slice(&read_file(&client.key_file)?)
                    .map_err(|error| unusable(&client.key_file, error))?;
                builder
                    .with_client_auth_cert(certificates, key)
                    .map_err(|error| unusable(&client.key_file, error))?
            }
        };
        config.alpn_protocols = match self.version {
            HttpProtocol::Http1 => vec![b"http/1.1".to_vec()],
            HttpProtocol::Http2 => vec![b"h2".to_vec()],
        };
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, HttpError> {
        let mut roots = RootCertStore::empty();
        let Some(path) = &self.config.ca_file else {
            // One that cannot be read is a certificate less to trust.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            return Ok(roots);
        };
        for certificate in CertificateDer::pem_slice_iter(&read_file(path)?) {
            certificate
                .map_err(|error| unusable(path, error))
                .and_then(|certificate| {
                    roots
                        .add(certificate)
                        .map_err(|error| unusable(path, error))
                })?;
        }
        if roots.is_empty() {
            return Err(unusable(path, "there is no certificate in it"));
        }
        Ok(roots)
    }
}
