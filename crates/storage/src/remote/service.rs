//! Maps the scheme of a path to a service.

/// The service of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    S3,
    Gcs,
    Azure,
    Http,
    /// Data sets of the Hugging Face Hub.
    Hub,
    /// fsspec file systems, passed for their schemes.
    Fsspec,
}

impl Service {
    pub(crate) fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" | "s3a" => Some(Self::S3),
            "gs" | "gcs" => Some(Self::Gcs),
            "az" | "azure" | "adl" | "abfs" | "abfss" => Some(Self::Azure),
            "http" | "https" => Some(Self::Http),
            HUB => Some(Self::Hub),
            _ => None,
        }
    }

    /// Why the service cannot be written to.
    pub(super) fn read_only(self) -> Option<&'static str> {
        match self {
            Self::S3 | Self::Gcs | Self::Azure => None,
            Self::Http => Some("HTTP servers are read only"),
            Self::Hub => Some("data sets of the Hugging Face Hub are read only here"),
            Self::Fsspec => Some("fsspec file systems are read only here"),
        }
    }
}

const HUB: &str = "hf";
