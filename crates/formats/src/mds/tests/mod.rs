mod index;
mod peer_files;
mod read;
mod write;
