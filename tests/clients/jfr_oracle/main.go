// SPDX-License-Identifier: Apache-2.0

// What Pyroscope's own parser makes of a recording and the labels sent with it, as JSON: a list of series, each with its profile type, labels, total and
// stacks. Usage: jfr_oracle NAME SPY FROM UNTIL RATE RECORDING [LABELS], the files as they are sent (compressed or not), NAME without labels.
//
// Profiles and their labels are those of its packages pprof and pprof/pyroscope; what its server does with them then (pkg/model/pprofsplit, Normalize) is
// done here: a series for each set of labels of samples, without those of spans; samples without a value go.
//
// Three things are wrong there, and counted rightly by Wick: delays are ticks of the recording's clock instead of nanoseconds; how many samples a
// WallClockSample stands for is counted again for other events behind it; stacks of several chunks are told apart by keys that are unique in a chunk only.
// So the events are counted once more here, one by one, by the same parser. That this finds the same is a condition: all of it where none of the three
// plays a role, series and types always.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/jfr-parser/parser"
	"github.com/grafana/jfr-parser/parser/types"
	"github.com/grafana/jfr-parser/pprof"
	"github.com/grafana/jfr-parser/pprof/pyroscope"
	profilev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
)

type series struct {
	Type   string            `json:"type"`
	Labels map[string]string `json:"labels"`
	Total  int64             `json:"total"`
	Stacks map[string]int64  `json:"stacks"` // root first, with ";" between
}
type result struct {
	Series  []*series `json:"series"`
	Chunks  int       `json:"chunks"`
	Ticks   uint64    `json:"ticksPerSecond"`
	Walls   bool      `json:"wallClockSamples"`
	Omitted int       `json:"withoutStack"`
}

// ---- sums ----

type sums map[string]*series

func (s sums) add(kind string, labels map[string]string, stack []string, value int64) {
	if value == 0 {
		return
	}
	keys := make([]string, 0, len(labels))
	for k, v := range labels {
		keys = append(keys, k+"\x00"+v)
	}
	sort.Strings(keys)
	key := kind + "\x01" + strings.Join(keys, "\x01")
	if s[key] == nil {
		s[key] = &series{Type: kind, Labels: labels, Stacks: map[string]int64{}}
	}
	s[key].Total += value
	s[key].Stacks[strings.Join(stack, ";")] += value
}

// Labels of a series and of a sample: those of the series win, and of several of the sample's the first.
func merge(base map[string]string, more [][2]string) map[string]string {
	out := map[string]string{}
	for k, v := range base {
		if v != "" && !strings.HasPrefix(k, "__") {
			out[k] = v
		}
	}
	for _, l := range more {
		if l[0] == "profile_id" || l[0] == "span_id" || l[0] == "trace_id" || l[1] == "" || out[l[0]] != "" {
			continue
		}
		out[l[0]] = l[1]
	}
	named := map[string]string{}
	for k, v := range out {
		named[strings.NewReplacer(".", "_", "-", "_", "/", "_").Replace(k)] = v
	}
	return named
}

// ---- by its profiles ----

func typeOf(p *profilev1.Profile, metric string, i int) string {
	s := p.StringTable
	period := p.PeriodType
	if period == nil {
		period = &profilev1.ValueType{}
	}
	return fmt.Sprintf("%s:%s:%s:%s:%s", metric, s[p.SampleType[i].Type], s[p.SampleType[i].Unit], s[period.Type], s[period.Unit])
}

func ofProfiles(profiles *pprof.Profiles, app, spy string) sums {
	out := sums{}
	for _, one := range profiles.Profiles {
		p := one.Profile
		base := map[string]string{}
		for _, l := range pyroscope.Labels(map[string]string{}, profiles.JFREvent, one.Metric, app, spy) {
			base[l.Name] = l.Value
		}
		for _, sample := range p.Sample {
			var more [][2]string
			for _, l := range sample.Label {
				more = append(more, [2]string{p.StringTable[l.Key], p.StringTable[l.Str]})
			}
			// Contexts are maps, which come in any order.
			sort.SliceStable(more, func(i, j int) bool { return more[i][0] < more[j][0] })
			var stack []string
			for i := len(sample.LocationId) - 1; i >= 0; i-- {
				stack = append(stack, p.StringTable[p.Function[p.Location[sample.LocationId[i]-1].Line[0].FunctionId-1].Name])
			}
			for i, value := range sample.Value {
				out.add(typeOf(p, one.Metric, i), merge(base, more), stack, value)
			}
		}
	}
	return out
}

// ---- by its events ----

type walk struct {
	p      *parser.Parser
	labels *pprof.LabelsSnapshot
	base   map[string]string
	out    sums
	result *result
	event  string
}

func (w *walk) more(context, name uint64) [][2]string {
	var out [][2]string
	if c := w.labels.Contexts[int64(context)]; c != nil {
		for k, v := range c.Labels {
			out = append(out, [2]string{w.labels.Strings[k], w.labels.Strings[v]})
		}
	}
	if name != 0 && w.labels.Strings[int64(name)] != "" {
		out = append(out, [2]string{"span_name", w.labels.Strings[int64(name)]})
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i][0] < out[j][0] })
	return out
}

func (w *walk) stack(ref types.StackTraceRef) ([]string, bool) {
	st := w.p.GetStacktrace(ref)
	if st == nil {
		w.result.Omitted++
		return nil, false
	}
	var out []string
	for i := len(st.Frames) - 1; i >= 0; i-- {
		m := w.p.GetMethod(st.Frames[i].Method)
		if m == nil {
			continue
		}
		class := w.p.GetClass(m.Type)
		if class == nil {
			continue
		}
		out = append(out, w.p.GetSymbolString(class.Name)+"."+w.p.GetSymbolString(m.Name))
	}
	return out, true
}

func (w *walk) add(ref types.StackTraceRef, more [][2]string, values ...any) {
	stack, ok := w.stack(ref)
	for i := 0; ok && i < len(values); i += 2 {
		w.out.add(values[i].(string), merge(w.base, more), stack, values[i+1].(int64))
	}
}

func (w *walk) ns(ticks uint64) int64 {
	n := new(big.Int).Mul(new(big.Int).SetUint64(ticks), big.NewInt(1e9))
	return n.Div(n, new(big.Int).SetUint64(w.p.ChunkHeader().TicksPerSecond)).Int64()
}

const (
	cpu  = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
	wall = "wall:wall:nanoseconds:wall:nanoseconds"
)

func (w *walk) all(period int64) error {
	p := w.p
	last := uint64(0)
	for {
		typ, err := p.ParseEvent()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h := p.ChunkHeader(); h.StartTicks != last || w.result.Chunks == 0 {
			last = h.StartTicks
			w.result.Chunks++
			w.result.Ticks = h.TicksPerSecond
		}
		switch typ {
		case p.TypeMap.T_EXECUTION_SAMPLE:
			e := &p.ExecutionSample
			state := p.GetThreadState(e.State)
			if state != nil && state.Name != "STATE_SLEEPING" {
				w.add(e.StackTrace, w.more(e.ContextId, e.SpanName), cpu, period)
			}
			if w.event == "wall" {
				w.add(e.StackTrace, w.more(e.ContextId, e.SpanName), wall, period)
			}
		case p.TypeMap.T_WALL_CLOCK_SAMPLE:
			e := &p.WallClockSample
			w.result.Walls = true
			state := p.GetThreadState(e.State)
			if state != nil && state.Name == "STATE_RUNNABLE" && w.event == "wall" {
				w.add(e.StackTrace, w.more(e.ContextId, e.SpanName), cpu, int64(e.Samples)*period)
			}
			w.add(e.StackTrace, w.more(e.ContextId, e.SpanName), wall, int64(e.Samples)*period)
		case p.TypeMap.T_ALLOC_IN_NEW_TLAB:
			e := &p.ObjectAllocationInNewTLAB
			w.add(e.StackTrace, w.more(e.ContextId, e.SpanName), "memory:alloc_in_new_tlab_objects:count:space:bytes", int64(1),
				"memory:alloc_in_new_tlab_bytes:bytes:space:bytes", int64(e.TlabSize))
		case p.TypeMap.T_ALLOC_OUTSIDE_TLAB:
			e := &p.ObjectAllocationOutsideTLAB
			w.add(e.StackTrace, w.more(e.ContextId, e.SpanName), "memory:alloc_outside_tlab_objects:count:space:bytes", int64(1),
				"memory:alloc_outside_tlab_bytes:bytes:space:bytes", int64(e.AllocationSize))
		case p.TypeMap.T_ALLOC_SAMPLE:
			e := &p.ObjectAllocationSample
			w.add(e.StackTrace, w.more(0, 0), "memory:alloc_sample_objects:count:space:bytes", int64(1),
				"memory:alloc_sample_bytes:bytes:space:bytes", int64(e.Weight))
		case p.TypeMap.T_MONITOR_ENTER:
			e := &p.JavaMonitorEnter
			w.add(e.StackTrace, w.more(e.ContextId, e.SpanName), "mutex:contentions:count:mutex:count", int64(1),
				"mutex:delay:nanoseconds:mutex:count", w.ns(e.Duration))
		case p.TypeMap.T_THREAD_PARK:
			e := &p.ThreadPark
			w.add(e.StackTrace, w.more(0, 0), "block:contentions:count:block:count", int64(1),
				"block:delay:nanoseconds:block:count", w.ns(e.Duration))
		case p.TypeMap.T_LIVE_OBJECT:
			w.add(p.LiveObject.StackTrace, w.more(0, 0), "memory:live:count:objects:count", int64(1))
		case p.TypeMap.T_MALLOC:
			w.add(p.Malloc.StackTrace, w.more(0, 0), "memory:malloc_objects:count::", int64(1),
				"memory:malloc_bytes:bytes::", int64(p.Malloc.Size))
		case p.TypeMap.T_ACTIVE_SETTING:
			if p.ActiveSetting.Name == "event" {
				w.event = p.ActiveSetting.Value
			}
		}
	}
}

// ---- both ----

func compare(profiles, events sums, r *result) error {
	for key, s := range profiles {
		if events[key] == nil {
			return fmt.Errorf("only the profiles have %s %v", s.Type, s.Labels)
		}
	}
	exact := !r.Walls && r.Ticks == 1e9
	for key, s := range events {
		other := profiles[key]
		if other == nil {
			return fmt.Errorf("only the events have %s %v", s.Type, s.Labels)
		}
		isTime := strings.Contains(s.Type, "delay")
		if (exact || (!r.Walls && !isTime)) && s.Total != other.Total {
			return fmt.Errorf("%s %v: %d by events, %d by profiles", s.Type, s.Labels, s.Total, other.Total)
		}
		if exact && r.Chunks == 1 && !reflect.DeepEqual(s.Stacks, other.Stacks) {
			return fmt.Errorf("%s %v: other stacks", s.Type, s.Labels)
		}
	}
	return nil
}

func readFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil || len(data) < 2 || data[0] != 0x1f || data[1] != 0x8b {
		return data, err
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(reader)
}

func run(args []string) error {
	if len(args) < 6 {
		return errors.New("usage: jfr_oracle NAME SPY FROM UNTIL RATE RECORDING [LABELS]")
	}
	numbers := make([]int64, 3)
	for i := range numbers {
		n, err := strconv.ParseInt(args[2+i], 10, 64)
		if err != nil {
			return err
		}
		numbers[i] = n
	}
	recording, err := readFile(args[5])
	if err != nil {
		return err
	}
	labels := new(pprof.LabelsSnapshot)
	if len(args) > 6 {
		data, err := readFile(args[6])
		if err != nil {
			return err
		}
		if err = labels.UnmarshalVT(data); err != nil {
			return err
		}
	}
	input := &pprof.ParseInput{StartTime: time.Unix(numbers[0], 0), EndTime: time.Unix(numbers[1], 0), SampleRate: numbers[2]}
	profiles, err := pprof.ParseJFR(recording, input, labels)
	if err != nil {
		return err
	}
	r := &result{}
	base := map[string]string{}
	for _, l := range pyroscope.Labels(map[string]string{}, profiles.JFREvent, "", args[0], args[1]) {
		base[l.Name] = l.Value
	}
	w := &walk{p: parser.NewParser(recording, parser.Options{SymbolProcessor: parser.ProcessSymbols}), labels: labels, base: base, out: sums{}, result: r}
	if err = w.all(1e9 / numbers[2]); err != nil {
		return err
	}
	if err = compare(ofProfiles(profiles, args[0], args[1]), w.out, r); err != nil {
		return err
	}
	for _, s := range w.out {
		r.Series = append(r.Series, s)
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "jfr_oracle:", err)
		os.Exit(1)
	}
}
