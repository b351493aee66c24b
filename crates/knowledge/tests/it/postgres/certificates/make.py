"""Makes the certificates of the tests anew, in this folder: `pip install cryptography`, `python3 make.py`. The key is of use
for nothing else. They hold from 2020 to 2120, whatever the clock of the machine says that runs the tests."""

from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HERE = Path(__file__).parent
BEGIN, END = datetime(2020, 1, 1), datetime(2120, 1, 1)


def name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def certificate(file, key, issuer, issuer_key, is_authority, end=END):
    made = x509.CertificateBuilder().subject_name(name(file)).issuer_name(name(issuer)).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(BEGIN).not_valid_after(end)
    made = made.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    made = made.sign(issuer_key, hashes.SHA256())
    (HERE / f"{file}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))


authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
certificate("authority", authority, "authority", authority, True)
certificate("server", server, "authority", authority, False)
certificate("expired", server, "authority", authority, False, datetime(2021, 1, 1))
# As `openssl req -x509` makes them: the server's and an authority's in one.
certificate("own", server, "own", server, True)
# What somebody makes who knows.
certificate("alone", server, "alone", server, False)
(HERE / "server.key").write_bytes(
    server.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
)
