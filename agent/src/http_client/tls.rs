//! TLS configuration of a client.
//!
//! Certificates are read at the first connection, and again when their files have changed, so that
//! neither a renewed certificate nor one that is created late needs a restart.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use super::{
    config::TlsConfig,
    failure::HttpError,
    secret::{FileStamp, read_file, stamp, unusable},
};

/// Version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, for gRPC.
    Http2,
}

/// TLS configuration, cached until a file changes.
#[derive(Debug)]
pub(super) struct Tls {
    config: TlsConfig,
    version: HttpProtocol,
    /// The configuration and the stamps of the files that it was made of.
    cached: Option<(Vec<FileStamp>, Arc<ClientConfig>)>,
}

impl Tls {
    pub(super) fn new(config: TlsConfig, version: HttpProtocol) -> Self {
        Self {
            config,
            version,
            cached: None,
        }
    }

    /// The current configuration. May block on the disk.
    pub(super) fn client_config(&mut self) -> Result<Arc<ClientConfig>, HttpError> {
        let client = self.config.client.iter();
        let client = client.flat_map(|client| [&client.certificate_file, &client.key_file]);
        let files = self.config.ca_file.iter().chain(client);
        let stamps: Vec<_> = files.map(|path| stamp(path)).collect::<Result<_, _>>()?;
        if let Some((cached_stamps, cached)) = &self.cached
            && *cached_stamps == stamps
        {
            return Ok(Arc::clone(cached));
        }
        let config = Arc::new(self.build()?);
        self.cached = Some((stamps, Arc::clone(&config)));
        Ok(config)
    }

    fn build(&self) -> Result<ClientConfig, HttpError> {
        let address = || "any server".to_owned();
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
            // Unreadable certificates are left out.
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
            return Err(unusable(path, "it contains no certificate"));
        }
        Ok(roots)
    }
}
