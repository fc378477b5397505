// SPDX-License-Identifier: Apache-2.0
//! Methods by service and name; a file for each kind of object.
mod arrays;
mod entries;
mod management;
mod matches;
mod multicast;
mod profiles;
mod programs;
mod simple_switch;
mod tables;
mod value_sets;

use super::arguments::Fields;
use super::failure::{Done, Failure};
use super::output::Output;
use super::shared::Shared;
use crate::device::Device;
use crate::p4runtime::{Reader, Writer};
use tokio::runtime::Runtime;

/// Effect of a method on the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Read,
    /// Changes are reported to the audit.
    Change,
    /// A change that brings a program: requests are longer.
    Program,
}

/// A method of a service.
pub struct Method {
    service: &'static str,
    pub name: &'static str,
    pub effect: Effect,
    pub run: fn(&mut Call<'_>) -> Done,
}

/// A request under way.
pub struct Call<'a> {
    pub arguments: Fields,
    /// The answer: its value is field 0.
    pub out: Output,
    pub server: &'a Shared,
    pub runtime: &'a Runtime,
}

impl Call<'_> {
    /// Runs `f` on the program's state, to change it.
    fn change<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Writer<'_>) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, Failure> {
        self.runtime.block_on(async { self.server.control.change().await.step(f).await })?
    }

    /// Runs `f` on the program's state, to read it.
    fn read<R: Send + 'static>(
        &self,
        f: impl FnOnce(&Reader<'_>) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, Failure> {
        self.runtime.block_on(async { self.server.control.read().await.step(f).await })?
    }

    /// Runs `f` on the switch.
    fn device<R: Send + 'static>(&self, f: impl FnOnce(&mut Device) -> R + Send + 'static) -> Result<R, Failure> {
        Ok(self.runtime.block_on(self.server.control.device(f))?)
    }
}

const STANDARD: &str = "standard";
const SWITCH: &str = "simple_switch";
/// Both of BMv2's replication engines; LAGs are `simple_pre_lag`'s alone.
const PRE: &str = "simple_pre";
const PRE_LAG: &str = "simple_pre_lag";

macro_rules! methods {
    ($($service:ident $effect:ident $name:ident: $run:path,)*) => {
        &[$(Method { service: $service, name: stringify!($name), effect: Effect::$effect, run: $run }),*]
    };
}

static METHODS: &[Method] = methods! {
    STANDARD Read bm_mt_get_num_entries: tables::count,
    STANDARD Change bm_mt_clear_entries: tables::clear,
    STANDARD Change bm_mt_add_entry: tables::add,
    STANDARD Change bm_mt_set_default_action: tables::set_default,
    STANDARD Change bm_mt_reset_default_entry: tables::reset_default,
    STANDARD Change bm_mt_delete_entry: tables::delete,
    STANDARD Change bm_mt_modify_entry: tables::modify,
    STANDARD Change bm_mt_set_entry_ttl: tables::set_timeout,
    STANDARD Change bm_mt_act_prof_add_member: profiles::add_member,
    STANDARD Change bm_mt_act_prof_delete_member: profiles::delete_member,
    STANDARD Change bm_mt_act_prof_modify_member: profiles::modify_member,
    STANDARD Change bm_mt_act_prof_create_group: profiles::create_group,
    STANDARD Change bm_mt_act_prof_delete_group: profiles::delete_group,
    STANDARD Change bm_mt_act_prof_add_member_to_group: profiles::add_to_group,
    STANDARD Change bm_mt_act_prof_remove_member_from_group: profiles::remove_from_group,
    STANDARD Read bm_mt_act_prof_get_members: profiles::members,
    STANDARD Read bm_mt_act_prof_get_member: profiles::member,
    STANDARD Read bm_mt_act_prof_get_groups: profiles::groups,
    STANDARD Read bm_mt_act_prof_get_group: profiles::group,
    STANDARD Change bm_mt_indirect_add_entry: tables::add_indirect,
    STANDARD Change bm_mt_indirect_modify_entry: tables::modify_indirect,
    STANDARD Change bm_mt_indirect_delete_entry: tables::delete_indirect,
    STANDARD Change bm_mt_indirect_set_entry_ttl: tables::set_timeout_indirect,
    STANDARD Change bm_mt_indirect_set_default_member: tables::set_default_member,
    STANDARD Change bm_mt_indirect_reset_default_entry: tables::reset_default,
    STANDARD Change bm_mt_indirect_ws_add_entry: tables::add_grouped,
    STANDARD Change bm_mt_indirect_ws_modify_entry: tables::modify_grouped,
    STANDARD Change bm_mt_indirect_ws_set_default_group: tables::set_default_group,
    STANDARD Read bm_mt_read_counter: arrays::read_direct_counter,
    STANDARD Change bm_mt_reset_counters: arrays::reset_direct_counters,
    STANDARD Change bm_mt_write_counter: arrays::write_direct_counter,
    STANDARD Change bm_mt_set_meter_rates: arrays::set_direct_rates,
    STANDARD Read bm_mt_get_meter_rates: arrays::direct_rates,
    STANDARD Read bm_mt_get_entries: entries::all,
    STANDARD Read bm_mt_get_entry: entries::one,
    STANDARD Read bm_mt_get_default_entry: entries::default_entry,
    STANDARD Read bm_mt_get_entry_from_key: entries::by_key,
    STANDARD Read bm_counter_read: arrays::read_counter,
    STANDARD Change bm_counter_reset_all: arrays::reset_counter,
    STANDARD Change bm_counter_write: arrays::write_counter,
    STANDARD Change bm_learning_ack: management::learning,
    STANDARD Change bm_learning_ack_buffer: management::learning,
    STANDARD Change bm_learning_set_timeout: management::learning,
    STANDARD Change bm_learning_set_buffer_size: management::learning,
    STANDARD Program bm_load_new_config: programs::load,
    STANDARD Change bm_swap_configs: programs::swap,
    STANDARD Change bm_meter_array_set_rates: arrays::set_all_rates,
    STANDARD Change bm_meter_set_rates: arrays::set_rates,
    STANDARD Read bm_meter_get_rates: arrays::rates,
    STANDARD Read bm_register_read: arrays::read_register,
    STANDARD Read bm_register_read_all: arrays::read_registers,
    STANDARD Change bm_register_write: arrays::write_register,
    STANDARD Change bm_register_write_range: arrays::write_registers,
    STANDARD Change bm_register_reset: arrays::reset_registers,
    STANDARD Change bm_parse_vset_add: value_sets::add,
    STANDARD Change bm_parse_vset_remove: value_sets::remove,
    STANDARD Read bm_parse_vset_get: value_sets::get,
    STANDARD Change bm_parse_vset_clear: value_sets::clear,
    STANDARD Change bm_dev_mgr_add_port: management::ports_are_fixed,
    STANDARD Change bm_dev_mgr_remove_port: management::ports_are_fixed,
    STANDARD Read bm_dev_mgr_show_ports: management::ports,
    STANDARD Read bm_mgmt_get_info: management::info,
    STANDARD Change bm_set_crc16_custom_parameters: management::custom_crc,
    STANDARD Change bm_set_crc32_custom_parameters: management::custom_crc,
    STANDARD Change bm_set_toeplitz_hash_key: management::toeplitz,
    STANDARD Change bm_reset_state: programs::reset,
    STANDARD Read bm_get_config: programs::config,
    STANDARD Read bm_get_config_md5: programs::config_md5,
    STANDARD Read bm_get_id_from_name: programs::id_of_name,
    STANDARD Read bm_serialize_state: management::serialize,
    PRE Change bm_mc_mgrp_create: multicast::create_group,
    PRE Change bm_mc_mgrp_destroy: multicast::destroy_group,
    PRE Change bm_mc_node_create: multicast::create_node,
    PRE Change bm_mc_node_associate: multicast::associate,
    PRE Change bm_mc_node_dissociate: multicast::dissociate,
    PRE Change bm_mc_node_destroy: multicast::destroy_node,
    PRE Change bm_mc_node_update: multicast::update_node,
    PRE Read bm_mc_get_entries: multicast::entries,
    PRE_LAG Change bm_mc_set_lag_membership: multicast::set_lag,
    SWITCH Change mirroring_mapping_add: simple_switch::add_mapping,
    SWITCH Change mirroring_mapping_delete: simple_switch::delete_mapping,
    SWITCH Read mirroring_mapping_get_egress_port: simple_switch::mapping,
    SWITCH Change mirroring_session_add: simple_switch::add_session,
    SWITCH Change mirroring_session_delete: simple_switch::delete_session,
    SWITCH Read mirroring_session_get: simple_switch::session,
    SWITCH Change set_egress_priority_queue_depth: simple_switch::depth_of_priority,
    SWITCH Change set_egress_queue_depth: simple_switch::depth_of_port,
    SWITCH Change set_all_egress_queue_depths: simple_switch::depth_of_all,
    SWITCH Change set_egress_priority_queue_rate: simple_switch::rate_of_priority,
    SWITCH Change set_egress_queue_rate: simple_switch::rate_of_port,
    SWITCH Change set_all_egress_queue_rates: simple_switch::rate_of_all,
    SWITCH Read get_time_elapsed_us: simple_switch::elapsed,
    SWITCH Read get_time_since_epoch_us: simple_switch::since_epoch,
};

/// A method by its service and name; without a service, by its name.
pub fn find(service: &str, name: &str) -> Option<&'static Method> {
    let service = if service == PRE_LAG { PRE } else { service };
    METHODS.iter().find(|m| m.name == name && (service.is_empty() || service == m.service || m.service == PRE_LAG))
}

/// All methods with their services.
#[cfg(test)]
pub fn names() -> Vec<String> {
    METHODS.iter().map(|m| format!("{}:{}", m.service, m.name)).collect()
}
