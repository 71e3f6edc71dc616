package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticksPerSecond of /proc: fixed at 100 on Linux, whatever the kernel's own rate.
const ticksPerSecond = 100

// tree is every live process of the given roots and their descendants.
func tree(roots []int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if parent, _, ok := stat(pid); ok {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	var found []int
	seen := map[int]bool{}
	for queue := append([]int(nil), roots...); len(queue) > 0; queue = queue[1:] {
		if pid := queue[0]; !seen[pid] {
			seen[pid] = true
			found = append(found, pid)
			queue = append(queue, children[pid]...)
		}
	}
	return found
}

// stat gives the parent, and the CPU of all threads and of waited-for children, in ticks.
func stat(pid int) (parent int, ticks int64, ok bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, false
	}
	// The name of the program comes first, in parentheses, and may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 15 {
		return 0, 0, false
	}
	parent, _ = strconv.Atoi(fields[1])
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		n, _ := strconv.ParseInt(field, 10, 64)
		ticks += n
	}
	return parent, ticks, true
}

func cpuTicks(roots []int) (ticks int64) {
	for _, pid := range tree(roots) {
		_, n, _ := stat(pid)
		ticks += n
	}
	return ticks
}

// busyTicks is the non-idle CPU of the whole machine.
func busyTicks() (ticks int64) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	for i, field := range strings.Fields(string(line)) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // the label, idle, iowait, guests (in user already)
			continue
		}
		n, _ := strconv.ParseInt(field, 10, 64)
		ticks += n
	}
	return ticks
}

func selfCPU() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// residentKiB of the tree. Pages that its processes share are counted once (PSS) where
// the kernel tells.
func residentKiB(roots []int) (kib float64) {
	for _, pid := range tree(roots) {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		if text, err := os.ReadFile(filepath.Join(dir, "smaps_rollup")); err == nil {
			kib += field(text, "Pss:")
		} else if text, err := os.ReadFile(filepath.Join(dir, "status")); err == nil {
			kib += field(text, "VmRSS:")
		}
	}
	return kib
}

func field(text []byte, name string) float64 {
	for _, line := range bytes.Split(text, []byte{'\n'}) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			if fields := bytes.Fields(rest); len(fields) > 0 {
				n, _ := strconv.ParseFloat(string(fields[0]), 64)
				return n
			}
		}
	}
	return 0
}

func parsePids(list string) []int {
	var pids []int
	for _, text := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			fatal("not a pid:", text)
		}
		pids = append(pids, pid)
	}
	return pids
}
