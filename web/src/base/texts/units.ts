// SPDX-License-Identifier: Apache-2.0
// Units, times and labels.

export const time = {
	months: ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'],
	ago: (time: string) => `${time} ago`,
	within: (time: string) => `in ${time}`,
	now: 'now',
};

export const unit = {
	cores: 'cores',
	secondsPerSecond: 'seconds per second',
	perSecond: 'per second',
	ofPerSecond: (unit: string) => `${unit} per second`,
	perS: 'per s', // behind a value
};

/** Titles of labels; other labels keep their own names. */
export const labels: Record<string, string> = {
	process_executable_name: 'Process',
	process_executable_path: 'Executable path',
	process_pid: 'Process id',
	process_comm: 'Command',
	thread_name: 'Thread',
	cgroup: 'Cgroup',
	host_name: 'Host',
	host_arch: 'Architecture',
	host_cpu_model_name: 'CPU model',
	os_version: 'Kernel version',
	os_description: 'Distribution',
	agent_version: 'Agent version',
	service_name: 'Service',
};

/** Titles of a count of their values. */
export const labelPlurals: Record<string, string> = {
	process_executable_name: 'Processes',
	process_executable_path: 'Executable paths',
	process_pid: 'Process ids',
	process_comm: 'Commands',
	thread_name: 'Threads',
	cgroup: 'Cgroups',
	host_name: 'Hosts',
	host_arch: 'Architectures',
	host_cpu_model_name: 'CPU models',
	os_version: 'Kernel versions',
	os_description: 'Distributions',
	agent_version: 'Agent versions',
	service_name: 'Services',
};
