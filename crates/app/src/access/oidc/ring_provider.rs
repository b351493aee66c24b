//! Checks signatures for the library that reads tokens: with ring, as for TLS. Makes no signature. Knows no claim.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind, new_error};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{
    self as checked, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes the library check signatures with ring. A second call changes nothing.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(new_error(ErrorKind::UnsupportedAlgorithm))
}

/// How signatures of an algorithm are checked.
enum Scheme {
    Rsa(&'static RsaParameters),
    Other(AlgorithmFamily, &'static dyn VerificationAlgorithm),
}

fn scheme(algorithm: Algorithm) -> Option<Scheme> {
    use AlgorithmFamily::{Ec, Ed};
    Some(match algorithm {
        Algorithm::RS256 => Scheme::Rsa(&checked::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Scheme::Rsa(&checked::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Scheme::Rsa(&checked::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Scheme::Rsa(&checked::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Scheme::Rsa(&checked::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Scheme::Rsa(&checked::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Scheme::Other(Ec, &checked::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Scheme::Other(Ec, &checked::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Scheme::Other(Ed, &checked::ED25519),
        _ => return None,
    })
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let scheme = scheme(*algorithm).ok_or_else(|| new_error(ErrorKind::UnsupportedAlgorithm))?;
    let family = match &scheme {
        Scheme::Rsa(_) => AlgorithmFamily::Rsa,
        Scheme::Other(family, _) => *family,
    };
    // A key of one family is never read as one of another.
    if key.family() != family {
        return Err(new_error(ErrorKind::InvalidKeyFormat));
    }
    Ok(Box::new(RingVerifier {
        algorithm: *algorithm,
        scheme,
        key: key.clone(),
    }))
}

struct RingVerifier {
    algorithm: Algorithm,
    scheme: Scheme,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let is_good = match (&self.scheme, self.key.kind()) {
            (Scheme::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Scheme::Other(_, scheme), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(*scheme, key).verify(message, signature)
            }
            (Scheme::Rsa(_), DecodingKeyKind::SecretOrDer(_))
            | (Scheme::Other(..), DecodingKeyKind::RsaModulusExponent { .. }) => {
                Err(ring::error::Unspecified)
            }
        };
        is_good.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
