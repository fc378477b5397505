// SPDX-License-Identifier: Apache-2.0
//! Multicast groups as BMv2's replication engine has them: groups of nodes, each with a replication id, ports and LAGs.
//! Pure.
use std::collections::{BTreeMap, BTreeSet};
use weir_p4::exec::Replicas;

/// BMv2 chooses a LAG's port by this number modulo the number of ports (`simple_pre_lag.cpp`).
const LAG_HASH: usize = 0xff;

/// A level-1 node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub rid: u32,
    /// Rising.
    pub ports: Vec<u32>,
    pub lags: Vec<u32>,
    /// The group that it is associated with.
    pub group: Option<u32>,
}

/// All nodes by their handles, and the groups.
#[derive(Debug, Default)]
pub struct Nodes {
    nodes: BTreeMap<u32, Node>,
    free: BTreeSet<u32>,
    next: u32,
    /// Handles of each group's nodes, in the order in which they were associated.
    groups: BTreeMap<u32, Vec<u32>>,
    /// Ports of each LAG.
    lags: BTreeMap<u32, Vec<u32>>,
}

impl Nodes {
    pub fn node(&self, handle: u32) -> Option<&Node> {
        self.nodes.get(&handle)
    }

    pub fn nodes(&self) -> impl Iterator<Item = (u32, &Node)> {
        self.nodes.iter().map(|(handle, node)| (*handle, node))
    }

    pub fn group(&self, id: u32) -> Option<&[u32]> {
        self.groups.get(&id).map(Vec::as_slice)
    }

    pub fn groups(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.groups.iter().map(|(id, handles)| (*id, handles.as_slice()))
    }

    pub fn lags(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.lags.iter().map(|(id, ports)| (*id, ports.as_slice()))
    }

    /// Ports of a LAG.
    pub fn lag(&self, id: u32) -> Option<&[u32]> {
        self.lags.get(&id).map(Vec::as_slice)
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Makes a node of no group; gives its handle, the least free one.
    pub fn create(&mut self, node: Node) -> u32 {
        let handle = self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.nodes.insert(handle, Node { group: None, ..node });
        handle
    }

    /// Changes ports and LAGs of a node; gives its group.
    pub fn update(&mut self, handle: u32, ports: Vec<u32>, lags: Vec<u32>) -> Option<u32> {
        let node = self.nodes.get_mut(&handle)?;
        (node.ports, node.lags) = (ports, lags);
        node.group
    }

    /// Removes a node, also from its group, which is given back.
    pub fn destroy(&mut self, handle: u32) -> Option<u32> {
        let node = self.nodes.remove(&handle)?;
        self.free.insert(handle);
        let group = node.group?;
        self.groups.get_mut(&group)?.retain(|h| *h != handle);
        Some(group)
    }

    pub fn create_group(&mut self, id: u32) {
        self.groups.entry(id).or_default();
    }

    /// Removes a group; its nodes stay.
    pub fn destroy_group(&mut self, id: u32) {
        for handle in self.groups.remove(&id).unwrap_or_default() {
            if let Some(node) = self.nodes.get_mut(&handle) {
                node.group = None;
            }
        }
    }

    /// Adds a node to a group; false when either does not exist, or the node is in a group.
    pub fn associate(&mut self, group: u32, handle: u32) -> bool {
        match (self.groups.get_mut(&group), self.nodes.get_mut(&handle)) {
            (Some(handles), Some(node)) if node.group.is_none() => {
                handles.push(handle);
                node.group = Some(group);
                true
            }
            _ => false,
        }
    }

    /// Takes a node out of a group; false when it is not in this group.
    pub fn dissociate(&mut self, group: u32, handle: u32) -> bool {
        match (self.groups.get_mut(&group), self.nodes.get_mut(&handle)) {
            (Some(handles), Some(node)) if node.group == Some(group) => {
                handles.retain(|h| *h != handle);
                node.group = None;
                true
            }
            _ => false,
        }
    }

    /// Sets the ports of a LAG; gives the groups that use it.
    pub fn set_lag(&mut self, lag: u32, ports: Vec<u32>) -> BTreeSet<u32> {
        self.lags.insert(lag, ports);
        self.nodes.values().filter(|n| n.lags.contains(&lag)).filter_map(|n| n.group).collect()
    }

    /// Replaces a group and its nodes by those that P4Runtime wrote: a node for each replication id.
    pub fn replace(&mut self, group: u32, replicas: Option<&Replicas>) {
        for handle in self.groups.get(&group).cloned().unwrap_or_default() {
            self.destroy(handle);
        }
        self.groups.remove(&group);
        let Some(replicas) = replicas else { return };
        self.create_group(group);
        for (rid, ports) in replicas {
            let handle = self.create(Node { rid: *rid, ports: ports.clone(), ..Node::default() });
            self.associate(group, handle);
        }
    }

    /// Copies of a group's packets, in BMv2's order.
    pub fn replicas(&self, group: u32) -> Replicas {
        let nodes = self.group(group).unwrap_or_default().iter().filter_map(|h| self.nodes.get(h));
        let copies = |n: &Node| {
            let lags = n.lags.iter().filter_map(|lag| {
                let ports = self.lags.get(lag).filter(|p| !p.is_empty())?;
                Some(ports[LAG_HASH % ports.len()])
            });
            (n.rid, n.ports.iter().copied().chain(lags).collect())
        };
        nodes.map(copies).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(rid: u32, ports: &[u32]) -> Node {
        Node { rid, ports: ports.to_vec(), ..Node::default() }
    }

    #[test]
    fn copies_follow_the_order_of_association() {
        let mut nodes = Nodes::default();
        let (a, b) = (nodes.create(node(7, &[1, 2])), nodes.create(node(3, &[2])));
        nodes.create_group(5);
        assert!(nodes.associate(5, b) && nodes.associate(5, a));
        assert!(!nodes.associate(5, a), "a node is in one group");
        assert_eq!(nodes.replicas(5), [(3, vec![2]), (7, vec![1, 2])]);
        assert!(nodes.dissociate(5, b) && !nodes.dissociate(5, b));
        assert_eq!(nodes.destroy(a), Some(5));
        assert_eq!(nodes.replicas(5), []);
        assert_eq!((nodes.create(node(0, &[])), b), (0, 1), "the least free handle is given");
    }

    #[test]
    fn a_lag_is_one_port() {
        let mut nodes = Nodes::default();
        let n = nodes.create(Node { lags: vec![4, 9], ..node(0, &[1]) });
        nodes.create_group(1);
        nodes.associate(1, n);
        assert_eq!(nodes.replicas(1), [(0, vec![1])]);
        assert_eq!(nodes.set_lag(4, vec![5, 6]), BTreeSet::from([1]));
        // 0xff modulo 2.
        assert_eq!(nodes.replicas(1), [(0, vec![1, 6])]);
    }

    #[test]
    fn a_group_of_p4runtime_has_a_node_for_each_id() {
        let mut nodes = Nodes::default();
        nodes.replace(2, Some(&vec![(1, vec![3]), (2, vec![3, 4])]));
        assert_eq!(nodes.group(2), Some(&[0, 1][..]));
        nodes.replace(2, Some(&vec![(9, vec![8])]));
        assert_eq!((nodes.len(), nodes.replicas(2)), (1, vec![(9, vec![8])]));
        nodes.replace(2, None);
        assert_eq!((nodes.len(), nodes.group(2)), (0, None));
    }
}
