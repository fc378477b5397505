// SPDX-License-Identifier: Apache-2.0
//! Header types, headers, stacks and unions, and their slots in the frame.
use super::tree::{Item, Res};
use crate::bytecode::ir::{Address, Expression, HeaderLayout, HeaderRef};
use crate::bytecode::operators::{DynIndex, Slot};
use crate::bytecode::program::StdMeta;
use crate::value::{MAX_WIDTH, Val};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Slots of all headers and metadata together.
const MAX_SLOTS: usize = 1 << 20;

/// Members of a header union.
const MAX_MEMBERS: usize = 256;

/// Instances that hold the fields known to the switch.
const STANDARD: [&str; 3] = ["standard_metadata", "intrinsic_metadata", "queueing_metadata"];

/// The field of a header that is its validity.
pub(super) const VALID: &str = "$valid$";

#[derive(Debug)]
pub(super) struct Field {
    pub name: String,
    /// Largest width of a field of variable length.
    pub width: u32,
    pub signed: bool,
    /// Slots from the header's validity.
    pub offset: usize,
}

#[derive(Debug)]
pub(super) struct HeaderType {
    pub name: String,
    pub fields: Vec<Field>,
    by_name: HashMap<String, usize>,
    pub layout: Arc<HeaderLayout>,
    /// Validity and fields.
    pub slots: usize,
}

/// A header or a metadata instance at a place that may depend on run-time indices.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Of the validity; metadata have none, but a slot for it.
    pub addr: Address,
    pub ty: usize,
    pub is_metadata: bool,
    /// Other members of its union.
    pub siblings: Vec<Address>,
}

/// A field's place.
#[derive(Clone, Debug)]
pub(super) struct FieldPlace {
    pub addr: Address,
    pub width: u32,
    pub signed: bool,
    /// Validity of its header.
    pub valid: Option<Address>,
    /// Whether the length follows.
    pub is_varbit: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub name: String,
    pub ty: usize,
    pub offset: usize,
}

/// A header union: its members follow each other.
#[derive(Clone, Debug)]
pub(super) struct Union {
    pub base: Slot,
    pub members: Arc<Vec<Member>>,
    pub slots: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Element {
    Header(usize),
    Union(Arc<Vec<Member>>),
}

/// A stack: the slot of the next index, then the elements.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    pub base: Slot,
    pub element: Element,
    pub each: usize,
    pub len: usize,
}

impl Stack {
    /// A slot of the element at a run-time index.
    pub fn at(&self, index: Slot, bias: i8, offset: usize) -> Address {
        let by = DynIndex { index, bias, stride: self.each, len: self.len };
        Address { base: self.base + 1 + offset, dyns: vec![by] }
    }
}

#[derive(Debug, Default)]
pub(super) struct Layout {
    pub types: Vec<HeaderType>,
    pub places: HashMap<String, Place>,
    pub stacks: HashMap<String, Stack>,
    pub unions: HashMap<String, Union>,
    /// Slots given out.
    pub slots: Cell<usize>,
    pub headers: (Slot, usize),
    pub meta: (Slot, usize),
    pub std: (Slot, usize),
    pub std_fields: StdMeta,
}

pub(super) fn fixed(base: Slot) -> Address {
    Address { base, dyns: Vec::new() }
}

pub(super) fn load(a: &Address) -> Expression {
    match a.dyns.is_empty() {
        true => Expression::Load(a.base),
        false => Expression::LoadAt(Box::new(a.clone())),
    }
}

pub(super) fn shifted(a: &Address, by: usize) -> Address {
    Address { base: a.base + by, dyns: a.dyns.clone() }
}

pub(super) fn if_valid(valid: &Address, e: Expression) -> Expression {
    Expression::Cond(Box::new((load(valid), e, Expression::Const(Val::S(0)))))
}

impl HeaderType {
    fn read(item: &Item) -> Res<HeaderType> {
        let mut fields: Vec<Field> = Vec::new();
        let (mut by_name, mut varbit, mut offset, mut fixed_bits) = (HashMap::new(), None, 1, 0usize);
        for (i, f) in item.items("fields")?.iter().enumerate() {
            let parts = f.list()?;
            let (name, width) = match parts.as_slice() {
                [name, width] | [name, width, _] => (name.text()?, width),
                _ => return f.err("must be [name, width, whether it is signed]"),
            };
            let signed = parts.get(2).is_some_and(|s| s.v.as_bool() == Some(true));
            let bits = if width.v.as_str() == Some("*") {
                if varbit.replace(i).is_some() {
                    return f.unsupported("a second field of variable length");
                }
                0
            } else {
                let bits = width.up_to(u64::from(MAX_WIDTH))? as u32;
                if bits == 0 {
                    return width.unsupported("a field without bits");
                }
                bits
            };
            if by_name.insert(name.to_string(), i).is_some() {
                return f.err(format!("field `{name}` is declared twice"));
            }
            fixed_bits += bits as usize;
            fields.push(Field { name: name.into(), width: bits, signed, offset });
            offset += if varbit == Some(i) { 2 } else { 1 };
        }
        if let Some(v) = varbit {
            // Older compilers give bits, which BMv2 takes for bytes too.
            let most = 8 * item.get("max_length")?.up_to(1 << 20)?;
            let Some(bits) = most.checked_sub(fixed_bits as u64).filter(|b| *b > 0) else {
                return item.err("max_length leaves no length for the variable field");
            };
            let bits = bits.min(u64::from(MAX_WIDTH));
            fields[v].width = bits as u32;
        }
        let layout = HeaderLayout { fields: fields.iter().map(|f| (f.offset, f.width)).collect(), varbit, fixed_bits };
        Ok(HeaderType { name: item.name()?.into(), fields, by_name, layout: Arc::new(layout), slots: offset })
    }

    pub fn field(&self, place: &Place, i: usize) -> Option<FieldPlace> {
        let f = self.fields.get(i)?;
        Some(FieldPlace {
            addr: shifted(&place.addr, f.offset),
            width: f.width,
            signed: f.signed,
            valid: (!place.is_metadata).then(|| place.addr.clone()),
            is_varbit: self.layout.varbit == Some(i),
        })
    }
}

/// A header instance before it has a place.
struct Instance<'a> {
    name: &'a str,
    ty: usize,
    is_metadata: bool,
    item: Item<'a>,
}

struct Reader<'a> {
    layout: Layout,
    types: HashMap<&'a str, usize>,
    instances: HashMap<u64, Instance<'a>>,
    /// Ids in the order of the document, and those that have a place.
    order: Vec<u64>,
    placed: HashSet<u64>,
}

impl<'a> Reader<'a> {
    fn instances(&mut self, root: &Item<'a>) -> Res<()> {
        for item in root.items("header_types")? {
            let name = item.name()?;
            if self.types.insert(name, self.layout.types.len()).is_some() {
                return item.err(format!("header type `{name}` is declared twice"));
            }
            self.layout.types.push(HeaderType::read(&item)?);
        }
        for item in root.items("headers")? {
            let (name, id) = (item.name()?, item.get("id")?.number()?);
            let ty = self.header_type(&item.get("header_type")?)?;
            let is_metadata = item.flag_or("metadata", false)?;
            if self.instances.insert(id, Instance { name, ty, is_metadata, item: item.clone() }).is_some() {
                return item.err(format!("id {id} is that of another header"));
            }
            self.order.push(id);
        }
        Ok(())
    }

    fn header_type(&self, item: &Item<'a>) -> Res<usize> {
        let name = item.text()?;
        self.types.get(name).copied().map_or_else(|| item.err(format!("header type `{name}` is not declared")), Ok)
    }

    fn alloc(&mut self, slots: usize, item: &Item<'a>) -> Res<Slot> {
        let at = self.layout.alloc(slots);
        if self.layout.slots.get() > MAX_SLOTS {
            return item.unsupported(format!("more than {MAX_SLOTS} fields in all"));
        }
        Ok(at)
    }

    /// Gives a header its place; each has one.
    fn put(&mut self, id: &Item<'a>, addr: Address, siblings: Vec<Address>, ty: Option<usize>) -> Res<()> {
        let n = id.number()?;
        let Some(x) = self.instances.get(&n) else { return id.err(format!("no header has id {n}")) };
        if ty.is_some_and(|ty| ty != x.ty) {
            return id.err(format!("header `{}` is of another type", x.name));
        }
        let place = Place { addr, ty: x.ty, is_metadata: x.is_metadata, siblings };
        self.placed.insert(n);
        if self.layout.places.insert(x.name.into(), place).is_some() {
            return id.err(format!("header `{}` has two places, or another its name", x.name));
        }
        Ok(())
    }

    fn stacks(&mut self, root: &Item<'a>) -> Res<()> {
        for item in root.items("header_stacks")? {
            let ty = self.header_type(&item.get("header_type")?)?;
            let ids = item.get("header_ids")?.list()?;
            let each = self.layout.types[ty].slots;
            let base = self.alloc(1 + each * ids.len(), &item)?;
            for (i, id) in ids.iter().enumerate() {
                self.put(id, fixed(base + 1 + i * each), Vec::new(), Some(ty))?;
            }
            let stack = Stack { base, element: Element::Header(ty), each, len: ids.len() };
            if ids.is_empty() || self.layout.stacks.insert(item.name()?.into(), stack).is_some() {
                return item.err("the stack is empty, or another has its name");
            }
        }
        Ok(())
    }

    fn unions(&mut self, root: &Item<'a>) -> Res<()> {
        let mut types: HashMap<&str, (Arc<Vec<Member>>, usize)> = HashMap::new();
        for item in root.items("header_union_types")? {
            let (mut members, mut offset) = (Vec::new(), 0);
            if item.get("headers")?.list()?.len() > MAX_MEMBERS {
                return item.unsupported(format!("a union of more than {MAX_MEMBERS} headers"));
            }
            for m in item.get("headers")?.list()? {
                let [name, ty] = m.exactly()?;
                let ty = self.header_type(&ty)?;
                members.push(Member { name: name.text()?.into(), ty, offset });
                offset += self.layout.types[ty].slots;
            }
            types.insert(item.name()?, (Arc::new(members), offset));
        }
        let mut by_id: HashMap<u64, (Item<'a>, Arc<Vec<Member>>)> = HashMap::new();
        let mut order = Vec::new();
        for item in root.items("header_unions")? {
            let ty = item.get("union_type")?;
            let Some((members, slots)) = types.get(ty.text()?).cloned() else {
                return ty.err("the union type is not declared");
            };
            let id = item.get("id")?.number()?;
            if by_id.insert(id, (item.clone(), members)).is_some() {
                return item.err(format!("id {id} is that of another union"));
            }
            order.push((id, slots));
        }
        let mut placed = HashMap::new();
        for item in root.items("header_union_stacks")? {
            let ty = item.get("union_type")?;
            let Some((members, each)) = types.get(ty.text()?).cloned() else {
                return ty.err("the union type is not declared");
            };
            let ids = item.get("header_union_ids")?.list()?;
            let base = self.alloc(1 + each * ids.len(), &item)?;
            for (i, id) in ids.iter().enumerate() {
                placed.insert(id.number()?, base + 1 + i * each);
            }
            let stack = Stack { base, element: Element::Union(members), each, len: ids.len() };
            if ids.is_empty() || self.layout.stacks.insert(item.name()?.into(), stack).is_some() {
                return item.err("the stack is empty, or another has its name");
            }
        }
        for (id, slots) in order {
            let (item, members) = &by_id[&id];
            let base = match placed.get(&id) {
                Some(base) => *base,
                None => self.alloc(slots, item)?,
            };
            let ids = item.get("header_ids")?.list()?;
            if ids.len() != members.len() {
                return item.err(format!("must have {} headers, not {}", members.len(), ids.len()));
            }
            for (m, id) in members.iter().zip(&ids) {
                let siblings =
                    members.iter().filter(|o| o.offset != m.offset).map(|o| fixed(base + o.offset)).collect();
                self.put(id, fixed(base + m.offset), siblings, Some(m.ty))?;
            }
            self.layout.unions.insert(item.name()?.into(), Union { base, members: members.clone(), slots });
        }
        Ok(())
    }

    /// Places of the instances that are in no stack or union.
    fn single(&mut self, fits: impl Fn(&Instance) -> bool) -> Res<()> {
        for id in self.order.clone() {
            let x = &self.instances[&id];
            if !fits(x) || self.placed.contains(&id) {
                continue;
            }
            self.placed.insert(id);
            let (name, ty, is_metadata, item) = (x.name, x.ty, x.is_metadata, x.item.clone());
            let base = self.alloc(self.layout.types[ty].slots, &item)?;
            let place = Place { addr: fixed(base), ty, is_metadata, siblings: Vec::new() };
            if self.layout.places.insert(name.into(), place).is_some() {
                return item.err(format!("header `{name}` is declared twice"));
            }
        }
        Ok(())
    }

    /// Slots of the fields that the switch itself reads and writes; those that the program lacks get one each.
    fn standard(&mut self, root: &Item<'a>) -> Res<()> {
        let mut aliases = HashMap::new();
        for item in root.items("field_aliases")? {
            let [alias, to] = item.exactly()?;
            let [header, field] = to.exactly()?;
            aliases.insert(alias.text()?, (header.text()?, field.text()?));
        }
        let at = |name: &str| {
            let known = |header: &str, field: &str| Some(self.layout.field(header, field)?.addr.base);
            let alias = |s: &&str| aliases.get(format!("{s}.{name}").as_str()).and_then(|(h, f)| known(h, f));
            let found = STANDARD.iter().find_map(alias).or_else(|| STANDARD.iter().find_map(|s| known(s, name)));
            found.unwrap_or_else(|| self.layout.alloc(1))
        };
        let fields = StdMeta {
            ingress_port: at("ingress_port"),
            egress_spec: at("egress_spec"),
            egress_port: at("egress_port"),
            instance_type: at("instance_type"),
            packet_length: at("packet_length"),
            enq_timestamp: at("enq_timestamp"),
            enq_qdepth: at("enq_qdepth"),
            deq_timedelta: at("deq_timedelta"),
            deq_qdepth: at("deq_qdepth"),
            ingress_global_timestamp: at("ingress_global_timestamp"),
            egress_global_timestamp: at("egress_global_timestamp"),
            mcast_grp: at("mcast_grp"),
            egress_rid: at("egress_rid"),
            checksum_error: at("checksum_error"),
            parser_error: at("parser_error"),
            priority: at("priority"),
        };
        self.layout.std_fields = fields;
        Ok(())
    }
}

impl Layout {
    pub fn read(root: &Item) -> Res<Layout> {
        // Slot 0 is never given out, so that an unset slot number shows.
        let layout = Layout { slots: Cell::new(1), ..Layout::default() };
        let (types, instances, order, placed) = (HashMap::new(), HashMap::new(), Vec::new(), HashSet::new());
        let mut r = Reader { layout, types, instances, order, placed };
        r.instances(root)?;
        let start = r.layout.slots.get();
        r.stacks(root)?;
        r.unions(root)?;
        r.single(|x| !x.is_metadata)?;
        let meta = r.layout.slots.get();
        r.single(|x| !STANDARD.contains(&x.name))?;
        let std = r.layout.slots.get();
        r.single(|_| true)?;
        if r.layout.field("standard_metadata", "egress_spec").is_none() {
            return root.err("has no header `standard_metadata` with the fields of v1model");
        }
        r.standard(root)?;
        let mut layout = r.layout;
        layout.headers = (start, meta - start);
        layout.meta = (meta, std - meta);
        layout.std = (std, layout.slots.get() - std);
        Ok(layout)
    }

    pub fn alloc(&self, slots: usize) -> Slot {
        self.slots.replace(self.slots.get() + slots)
    }

    /// A field by the names of its header and of itself.
    pub fn field(&self, header: &str, field: &str) -> Option<FieldPlace> {
        let place = self.places.get(header)?;
        self.field_of(place, field)
    }

    pub fn field_of(&self, place: &Place, field: &str) -> Option<FieldPlace> {
        if field == VALID && !place.is_metadata {
            let (addr, valid) = (place.addr.clone(), None);
            return Some(FieldPlace { addr, width: 1, signed: false, valid, is_varbit: false });
        }
        let ty = &self.types[place.ty];
        ty.field(place, *ty.by_name.get(field)?)
    }

    pub fn header_ref(&self, place: &Place) -> HeaderRef {
        let layout = self.types[place.ty].layout.clone();
        HeaderRef { addr: place.addr.clone(), layout, siblings: place.siblings.clone() }
    }

    /// An element of a stack, or a member of its union, at a run-time index.
    pub fn element(&self, stack: &Stack, index: Slot, bias: i8, member: Option<&Member>) -> Option<Place> {
        let at = |offset: usize| stack.at(index, bias, offset);
        match (&stack.element, member) {
            (Element::Header(ty), None) => {
                Some(Place { addr: at(0), ty: *ty, is_metadata: false, siblings: Vec::new() })
            }
            (Element::Union(all), Some(m)) => {
                let siblings = all.iter().filter(|o| o.offset != m.offset).map(|o| at(o.offset)).collect();
                Some(Place { addr: at(m.offset), ty: m.ty, is_metadata: false, siblings })
            }
            _ => None,
        }
    }
}
