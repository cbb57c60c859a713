"""Certificates of an authority of a test's own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HERE = "127.0.0.1"


@dataclass(frozen=True)
class Authority:
    """Signs certificates; `path` is what a client must know to believe them."""

    folder: Path
    name: str
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, folder: Path, name: str) -> Authority:
        made = cls(folder, name, ec.generate_private_key(ec.SECP256R1()))
        certificate = made._builder(name, made.key).add_extension(x509.BasicConstraints(True, None), critical=True)
        made.path.write_bytes(certificate.sign(made.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return made

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.pem"

    def server(self, address: str = HERE) -> tuple[Path, Path]:
        """Certificate and key of a server at that IP address."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
        certificate = self._builder(address, key).add_extension(names, critical=False)
        files = self.folder / f"{self.name}-{address}.crt", self.folder / f"{self.name}-{address}.key"
        files[0].write_bytes(certificate.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return files

    def _builder(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=2))
        )
