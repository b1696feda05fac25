//! Certificates made for a test.

use std::{fs, path::Path, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

use crate::http_client::{ClientCertificate, TlsConfig};

pub(crate) type Issuer = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn authority() -> Issuer {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key, in PEM and in DER.
pub(crate) fn issued(
    issuer: &Issuer,
    name: &str,
    usage: ExtendedKeyUsagePurpose,
) -> (String, KeyPair, CertificateDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.extended_key_usages = vec![usage];
    let certificate = params.signed_by(&key, issuer).unwrap();
    (certificate.pem(), key, certificate.der().clone())
}

/// Acceptor of a server with a certificate of `issuer`, which requires a client certificate of
/// `clients`.
pub(crate) fn acceptor(issuer: &Issuer, clients: Option<&Issuer>, protocol: &str) -> TlsAcceptor {
    let (_, key, certificate) = issued(issuer, "127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth);
    acceptor_with(&key, certificate, clients, protocol)
}

/// That of a server whose certificate is the one of an authority.
pub(crate) fn acceptor_of_authority(authority: &Issuer, protocol: &str) -> TlsAcceptor {
    acceptor_with(authority.key(), authority.der().clone(), None, protocol)
}

fn acceptor_with(
    key: &KeyPair,
    certificate: CertificateDer<'static>,
    clients: Option<&Issuer>,
    protocol: &str,
) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots.add(clients.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = builder.with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

pub(crate) fn trusted(folder: &Path, authority: &Issuer) -> TlsConfig {
    let path = folder.join("ca.pem");
    fs::write(&path, authority.pem()).unwrap();
    TlsConfig {
        ca_file: Some(path),
        client: None,
    }
}

pub(crate) fn client(folder: &Path, issuer: &Issuer) -> ClientCertificate {
    let (certificate, key, _) = issued(issuer, "agent", ExtendedKeyUsagePurpose::ClientAuth);
    let paths = ClientCertificate {
        certificate_file: folder.join("client.pem"),
        key_file: folder.join("client.key"),
    };
    fs::write(&paths.certificate_file, certificate).unwrap();
    fs::write(&paths.key_file, key.serialize_pem()).unwrap();
    paths
}
