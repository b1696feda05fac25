//! Taking maps out of the loaded object, typed.

use aya::{
    Ebpf,
    maps::{Map, MapError},
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
