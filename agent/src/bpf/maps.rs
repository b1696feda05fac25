//! Taking maps out of the loaded object, typed.

use aya::{
    Ebpf,
    maps::{Map, MapData, MapError},
};

use super::error::{Error, map_error};

/// The map `name`, which the caller owns from then on.
pub(super) fn take<M>(object: &mut Ebpf, name: &'static str) -> Result<M, Error>
where
    M: TryFrom<Map, Error = MapError>,
{
    let map = object.take_map(name).ok_or(Error::Incomplete(name))?;
    M::try_from(map).map_err(map_error("open", name))
}

/// Opens a map of the object once more.
pub(super) fn again<M>(object: &Ebpf, name: &'static str) -> Result<M, Error>
where
    M: TryFrom<Map, Error = MapError>,
{
    let map = object.map(name).ok_or(Error::Incomplete(name))?;
    let (data, wrap): (&MapData, fn(MapData) -> Map) = match map {
        Map::Array(data) => (data, Map::Array),
        Map::HashMap(data) => (data, Map::HashMap),
        Map::PerCpuArray(data) => (data, Map::PerCpuArray),
        _ => return Err(Error::Incomplete(name)),
    };
    let descriptor = std::os::fd::AsFd::as_fd(data.fd())
        .try_clone_to_owned()
        .map_err(|source| Error::System {
            call: "open a BPF map once more",
            source,
        })?;
    let again = MapData::from_fd(descriptor).map_err(map_error("open", name))?;
    M::try_from(wrap(again)).map_err(map_error("open", name))
}
