//! Names of the kubelet's log files.
//!
//! A pod's folder is `/var/log/pods/NAMESPACE_POD_UID` with one folder for each container, and
//! `/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log` is a link to the log of a container: so
//! the names alone resolve an id. Some distributions do not create the links.

use std::{fs, path::Path, sync::Arc};

use super::container::{ContainerInfo, MAX_TEXT, Pod};
use crate::process::file_name;

/// Most files of a folder that are read.
const MAX_FILES: usize = 64 << 10;

/// Digits of a container's id.
const ID_DIGITS: usize = 64;

/// The container with this id.
pub(super) fn container(root: &Path, id: &str) -> Option<ContainerInfo> {
    if id.len() != ID_DIGITS {
        return None;
    }
    let end = format!("-{id}.log");
    let link = fs::read_dir(root.join("var/log/containers"))
        .ok()?
        .take(MAX_FILES)
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|link| file_name(link).ends_with(end.as_bytes()))?;
    let name = str::from_utf8(file_name(&link)).ok()?;
    let mut parts = name.strip_suffix(&end)?.split('_');
    let (pod, namespace, container) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || [pod, namespace, container].contains(&"") {
        return None;
    }
    // The target of the link has the UID.
    let target = fs::read_link(&link).unwrap_or_default();
    let uid = target
        .ancestors()
        .find_map(|folder| pod_of_folder(folder.file_name()?.to_str()?))
        .filter(|found| found.name == pod && found.namespace == namespace)
        .map(|found| found.uid);
    let pod = Pod {
        uid: uid.unwrap_or_default(),
        name: pod.to_owned(),
        namespace: namespace.to_owned(),
        ..Pod::default()
    };
    Some(ContainerInfo {
        container: Some(container.to_owned()),
        pod: Some(Arc::new(pod)),
        ..ContainerInfo::default()
    })
}

/// The pod with this UID, and its container if there is only one.
pub(super) fn pod(root: &Path, uid: &str) -> Option<ContainerInfo> {
    let (pod, folder) = fs::read_dir(root.join("var/log/pods"))
        .ok()?
        .take(MAX_FILES)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((pod_of_folder(entry.file_name().to_str()?)?, entry.path()))
        })
        .find(|(pod, _)| pod.uid == uid)?;
    let mut containers = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let container = match (containers.next(), containers.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    };
    Some(ContainerInfo {
        container,
        pod: Some(Arc::new(pod)),
        ..ContainerInfo::default()
    })
}

/// Reads `NAMESPACE_POD_UID`.
fn pod_of_folder(name: &str) -> Option<Pod> {
    let mut parts = name.split('_');
    let (namespace, pod, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let is_pod =
        parts.next().is_none() && ![namespace, pod, uid].contains(&"") && name.len() <= MAX_TEXT;
    is_pod.then(|| Pod {
        uid: uid.to_owned(),
        name: pod.to_owned(),
        namespace: namespace.to_owned(),
        ..Pod::default()
    })
}
