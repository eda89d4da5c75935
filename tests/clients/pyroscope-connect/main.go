// SPDX-License-Identifier: Apache-2.0
// Pyroscope's own client stubs (github.com/grafana/pyroscope/api, connect-go), as Grafana's data source and pages use them: what is pushed with them must
// come back by every call, over every protocol that connect-go has: Connect in protobuf and JSON, gRPC over HTTP/1.1 and HTTP/2, gRPC-Web.
//
//	pyroscope-connect URL REPOSITORY   prints "ok NAME" or "FAILED NAME: why", a line a check
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	adhocv1 "github.com/grafana/pyroscope/api/gen/proto/go/adhocprofiles/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/adhocprofiles/v1/adhocprofilesv1connect"
	profilev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	settingsv1 "github.com/grafana/pyroscope/api/gen/proto/go/settings/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/settings/v1/settingsv1connect"
	statusv1 "github.com/grafana/pyroscope/api/gen/proto/go/status/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/status/v1/statusv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
	vcsv1 "github.com/grafana/pyroscope/api/gen/proto/go/vcs/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/vcs/v1/vcsv1connect"
	"google.golang.org/protobuf/proto"
)

const (
	cpu  = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
	span = "9a517183f26a089d"
)

var failed bool

func check(name string, err error) {
	if err != nil {
		failed = true
		fmt.Printf("FAILED %s: %v\n", name, err)
		return
	}
	fmt.Println("ok", name)
}

func equal[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v instead of %v", what, got, want)
	}
	return nil
}

func all(errs ...error) error { return errors.Join(errs...) }

// main;heavy 70, main;light 30 at the time; the first with a span.
func profile(at time.Time) *profilev1.Profile {
	line := func(id uint64, line int64) *profilev1.Location {
		return &profilev1.Location{Id: id, MappingId: 1, Address: 4096 * id, Line: []*profilev1.Line{{FunctionId: id, Line: line}}}
	}
	return &profilev1.Profile{
		StringTable:   []string{"", "cpu", "nanoseconds", "main", "heavy", "light", "span_id", span, "app"},
		SampleType:    []*profilev1.ValueType{{Type: 1, Unit: 2}},
		PeriodType:    &profilev1.ValueType{Type: 1, Unit: 2},
		Period:        10,
		TimeNanos:     at.UnixNano(),
		DurationNanos: int64(10 * time.Second),
		Mapping:       []*profilev1.Mapping{{Id: 1, MemoryLimit: 1 << 20, Filename: 8, HasFunctions: true}},
		Function:      []*profilev1.Function{{Id: 1, Name: 3, StartLine: 1}, {Id: 2, Name: 4, StartLine: 10}, {Id: 3, Name: 5, StartLine: 20}},
		Location:      []*profilev1.Location{line(1, 3), line(2, 12), line(3, 25)},
		Sample: []*profilev1.Sample{
			{LocationId: []uint64{2, 1}, Value: []int64{70}, Label: []*profilev1.Label{{Key: 6, Str: 7}}},
			{LocationId: []uint64{3, 1}, Value: []int64{30}},
		},
	}
}

func push(url string, at time.Time, http *http.Client, options ...connect.ClientOption) error {
	raw, err := proto.Marshal(profile(at))
	if err != nil {
		return err
	}
	labels := []*typesv1.LabelPair{{Name: "__name__", Value: "process_cpu"}, {Name: "service_name", Value: "shop"}, {Name: "region", Value: "eu"}}
	_, err = pushv1connect.NewPusherServiceClient(http, url, options...).Push(context.Background(), connect.NewRequest(&pushv1.PushRequest{
		Series: []*pushv1.RawProfileSeries{{Labels: labels, Samples: []*pushv1.RawSample{{RawProfile: raw}}}},
	}))
	return err
}

type caller struct {
	querierv1connect.QuerierServiceClient
	start, end int64
}

func (c caller) request() *querierv1.SelectMergeStacktracesRequest {
	return &querierv1.SelectMergeStacktracesRequest{ProfileTypeID: cpu, LabelSelector: `{service_name="shop"}`, Start: c.start, End: c.end}
}

func flame(graph *querierv1.FlameGraph, total int64, names ...string) error {
	got := slices.Clone(graph.GetNames())
	slices.Sort(got)
	return all(equal("total", graph.GetTotal(), total), equal("names", strings.Join(got, " "), strings.Join(names, " ")))
}

// What Grafana's data source calls (pkg/tsdb/grafana-pyroscope-datasource), its health check first; traces to profiles is the last.
func (c caller) grafana(count int64) error {
	ctx := context.Background()
	types, err := c.ProfileTypes(ctx, connect.NewRequest(&querierv1.ProfileTypesRequest{Start: c.start, End: c.end}))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(types.Msg.ProfileTypes, func(t *typesv1.ProfileType) bool {
		return t.ID == cpu && t.Name == "process_cpu" && t.SampleType == "cpu"
	}) {
		return fmt.Errorf("no type %s in %v", cpu, types.Msg)
	}
	names, err := c.LabelNames(ctx, connect.NewRequest(&typesv1.LabelNamesRequest{Matchers: []string{`{service_name="shop"}`}, Start: c.start, End: c.end}))
	if err != nil {
		return err
	}
	for _, name := range []string{"region", "service_name", "__service_name__", "__profile_type__"} {
		if !slices.Contains(names.Msg.Names, name) {
			return fmt.Errorf("no label %s in %v", name, names.Msg.Names)
		}
	}
	values, err := c.LabelValues(ctx, connect.NewRequest(&typesv1.LabelValuesRequest{Name: "region", Matchers: []string{"{}"}, Start: c.start, End: c.end}))
	if err != nil {
		return err
	}
	series, err := c.SelectSeries(ctx, connect.NewRequest(&querierv1.SelectSeriesRequest{ProfileTypeID: cpu, LabelSelector: `{service_name="shop"}`,
		Start: c.start, End: c.end, Step: 15, GroupBy: []string{"region"}}))
	if err != nil {
		return err
	}
	var sum float64
	for _, s := range series.Msg.Series {
		for _, p := range s.Points {
			sum += p.Value
		}
	}
	merged, err := c.SelectMergeStacktraces(ctx, connect.NewRequest(c.request()))
	if err != nil {
		return err
	}
	spans, err := c.SelectMergeSpanProfile(ctx, connect.NewRequest(&querierv1.SelectMergeSpanProfileRequest{ProfileTypeID: cpu, //nolint:staticcheck // as Grafana does
		LabelSelector: `{service_name="shop"}`, SpanSelector: []string{span}, Start: c.start, End: c.end}))
	if err != nil {
		return err
	}
	return all(equal("values", strings.Join(values.Msg.Names, " "), "eu"), equal("sum", sum, float64(100*count)),
		flame(merged.Msg.Flamegraph, 100*count, "heavy", "light", "main", "total"), flame(spans.Msg.Flamegraph, 70*count, "heavy", "main", "total"))
}

func (c caller) exemplars() error {
	ctx := context.Background()
	series, err := c.SelectSeries(ctx, connect.NewRequest(&querierv1.SelectSeriesRequest{ProfileTypeID: cpu, LabelSelector: `{service_name="shop"}`,
		Start: c.start, End: c.end, Step: 15, ExemplarType: typesv1.ExemplarType_EXEMPLAR_TYPE_INDIVIDUAL}))
	if err != nil {
		return err
	}
	found := 0
	for _, s := range series.Msg.Series {
		for _, p := range s.Points {
			if len(p.Exemplars) != 1 {
				return fmt.Errorf("a point has %d exemplars", len(p.Exemplars))
			}
			request := c.request()
			request.ProfileIdSelector = []string{p.Exemplars[0].ProfileId}
			one, err := c.SelectMergeStacktraces(ctx, connect.NewRequest(request))
			if err := all(err, equal("value", p.Exemplars[0].Value, 100), flame(one.Msg.Flamegraph, 100, "heavy", "light", "main", "total")); err != nil {
				return err
			}
			found++
		}
	}
	heatmap, err := c.SelectHeatmap(ctx, connect.NewRequest(&querierv1.SelectHeatmapRequest{ProfileTypeID: cpu, LabelSelector: "{}", Start: c.start, End: c.end,
		Step: 3600, QueryType: querierv1.HeatmapQueryType_HEATMAP_QUERY_TYPE_INDIVIDUAL, ExemplarType: typesv1.ExemplarType_EXEMPLAR_TYPE_INDIVIDUAL}))
	if err != nil {
		return err
	}
	if found == 0 || len(heatmap.Msg.Series) > 1 {
		return fmt.Errorf("%d points, heatmap %v", found, heatmap.Msg)
	}
	return nil
}

func (c caller) profiles() error {
	ctx := context.Background()
	pgo := &typesv1.StackTraceSelector{GoPgo: &typesv1.GoPGO{KeepLocations: 1, AggregateCallees: true}}
	short, err := c.SelectMergeProfile(ctx, connect.NewRequest(&querierv1.SelectMergeProfileRequest{ProfileTypeID: cpu, LabelSelector: "{}", //nolint:staticcheck
		Start: c.start, End: c.end, StackTraceSelector: pgo}))
	if err != nil {
		return err
	}
	for _, s := range short.Msg.Sample {
		if len(s.LocationId) != 1 || short.Msg.Location[s.LocationId[0]-1].Line[0].Line != 0 {
			return fmt.Errorf("go_pgo: sample %v", s)
		}
	}
	few, err := c.SelectMergeProfile(ctx, connect.NewRequest(&querierv1.SelectMergeProfileRequest{ProfileTypeID: cpu, LabelSelector: "{}", //nolint:staticcheck
		Start: c.start, End: c.end, MaxNodes: proto.Int64(2)}))
	if err != nil {
		return err
	}
	site := c.request()
	site.StackTraceSelector = &typesv1.StackTraceSelector{CallSite: []*typesv1.Location{{Name: "main"}, {Name: "light"}}}
	below, err := c.SelectMergeStacktraces(ctx, connect.NewRequest(site))
	if err != nil {
		return err
	}
	analysis, err := c.AnalyzeQuery(ctx, connect.NewRequest(&querierv1.AnalyzeQueryRequest{Start: c.start, End: c.end, Query: cpu + `{service_name="shop"}`}))
	if err != nil {
		return err
	}
	return all(equal("samples for PGO", len(short.Msg.Sample), 2), equal("few nodes", slices.Contains(few.Msg.StringTable, "other"), true),
		equal("light is cut", slices.Contains(few.Msg.StringTable, "light"), false),
		equal("series selected", analysis.Msg.QueryImpact.TotalQueriedSeries, 1), equal("scopes", len(analysis.Msg.QueryScopes), 2),
		flame(below.Msg.Flamegraph, below.Msg.Flamegraph.Total, "light", "main", "total"))
}

func (c caller) async() error {
	ctx := context.Background()
	force := func(id string) *querierv1.AsyncQueryRequest {
		return &querierv1.AsyncQueryRequest{Type: querierv1.AsyncQueryType_ASYNC_QUERY_TYPE_FORCE, RequestId: id}
	}
	request := c.request()
	request.Async = force("")
	begun, err := c.SelectMergeStacktraces(ctx, connect.NewRequest(request))
	if err != nil {
		return err
	}
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		poll, err := c.SelectMergeStacktraces(ctx, connect.NewRequest(&querierv1.SelectMergeStacktracesRequest{Async: force(begun.Msg.Async.RequestId)}))
		if err != nil {
			return err
		}
		if poll.Msg.Async.Status != querierv1.AsyncQueryStatus_ASYNC_QUERY_STATUS_IN_PROGRESS {
			return all(equal("status", poll.Msg.Async.Status, querierv1.AsyncQueryStatus_ASYNC_QUERY_STATUS_SUCCESS),
				flame(poll.Msg.Flamegraph, poll.Msg.Flamegraph.GetTotal(), "heavy", "light", "main", "total"))
		}
	}
	return errors.New("it does not end")
}

func settings(http *http.Client, url string, options ...connect.ClientOption) error {
	ctx := context.Background()
	client := settingsv1connect.NewSettingsServiceClient(http, url, options...)
	if _, err := client.Set(ctx, connect.NewRequest(&settingsv1.SetSettingsRequest{Setting: &settingsv1.Setting{Name: "a", Value: "1"}})); err != nil {
		return err
	}
	got, err := client.Get(ctx, connect.NewRequest(&settingsv1.GetSettingsRequest{}))
	if err != nil {
		return err
	}
	rules := settingsv1connect.NewRecordingRulesServiceClient(http, url, options...)
	made, err := rules.UpsertRecordingRule(ctx, connect.NewRequest(&settingsv1.UpsertRecordingRuleRequest{MetricName: "profiles_recorded_x",
		Matchers: []string{`{__profile_type__="` + cpu + `"}`}, GroupBy: []string{"region"}}))
	if err != nil {
		return err
	}
	rule, err := rules.GetRecordingRule(ctx, connect.NewRequest(&settingsv1.GetRecordingRuleRequest{Id: made.Msg.Rule.Id}))
	if err != nil {
		return err
	}
	list, err := rules.ListRecordingRules(ctx, connect.NewRequest(&settingsv1.ListRecordingRulesRequest{}))
	if err != nil {
		return err
	}
	_, err = rules.DeleteRecordingRule(ctx, connect.NewRequest(&settingsv1.DeleteRecordingRuleRequest{Id: made.Msg.Rule.Id}))
	info, failure := statusv1connect.NewStatusServiceClient(http, url, options...).GetBuildInfo(ctx, connect.NewRequest(&statusv1.GetBuildInfoRequest{}))
	if err := all(err, failure); err != nil {
		return err
	}
	return all(equal("settings", got.Msg.Settings[0].Value, "1"), equal("the rule", proto.Equal(rule.Msg.Rule, made.Msg.Rule), true),
		equal("its type", rule.Msg.Rule.ProfileType, cpu), equal("rules", len(list.Msg.Rules), 1), equal("has a version", info.Msg.Data.Version != "", true))
}

func adhoc(http *http.Client, url string, options ...connect.ClientOption) error {
	ctx := context.Background()
	client := adhocprofilesv1connect.NewAdHocProfileServiceClient(http, url, options...)
	raw, err := proto.Marshal(profile(time.Now()))
	if err != nil {
		return err
	}
	up, err := client.Upload(ctx, connect.NewRequest(&adhocv1.AdHocProfilesUploadRequest{Name: "a.pb", Profile: base64.StdEncoding.EncodeToString(raw)}))
	if err != nil {
		return err
	}
	back, err := client.Get(ctx, connect.NewRequest(&adhocv1.AdHocProfilesGetRequest{Id: up.Msg.Id}))
	if err != nil {
		return err
	}
	list, err := client.List(ctx, connect.NewRequest(&adhocv1.AdHocProfilesListRequest{}))
	if err != nil {
		return err
	}
	return all(equal("what comes back", proto.Equal(up.Msg, back.Msg), true), equal("type", up.Msg.ProfileType, "cpu"),
		equal("listed", slices.ContainsFunc(list.Msg.Profiles, func(p *adhocv1.AdHocProfilesProfileMetadata) bool { return p.Id == up.Msg.Id }), true))
}

func vcs(repository string, http *http.Client, url string, options ...connect.ClientOption) error {
	ctx := context.Background()
	client := vcsv1connect.NewVCSServiceClient(http, url, options...)
	file, err := client.GetFile(ctx, connect.NewRequest(&vcsv1.GetFileRequest{RepositoryURL: repository, Ref: "HEAD", LocalPath: "/src/shop/main.go"}))
	if err != nil {
		return err
	}
	text, err := base64.StdEncoding.DecodeString(file.Msg.Content)
	if err != nil {
		return err
	}
	commit, err := client.GetCommit(ctx, connect.NewRequest(&vcsv1.GetCommitRequest{RepositoryURL: repository, Ref: "HEAD"}))
	if err != nil {
		return err
	}
	_, err = time.Parse(time.RFC3339, commit.Msg.Date)
	return all(err, equal("content", string(text), "package main\n"), equal("message", commit.Msg.Message, "First"))
}

// A call that no server has.
func unknown(http *http.Client, url string, options ...connect.ClientOption) error {
	client := connect.NewClient[statusv1.GetBuildInfoRequest, statusv1.GetBuildInfoResponse](http, url+"/status.v1.StatusService/Nothing", options...)
	_, err := client.CallUnary(context.Background(), connect.NewRequest(&statusv1.GetBuildInfoRequest{}))
	return equal("code", connect.CodeOf(err), connect.CodeUnimplemented)
}

func invalid(c caller) error {
	_, err := c.SelectMergeStacktraces(context.Background(), connect.NewRequest(&querierv1.SelectMergeStacktracesRequest{ProfileTypeID: "x", LabelSelector: "{}", Start: 1, End: 2}))
	return equal("code", connect.CodeOf(err), connect.CodeInvalidArgument)
}

func main() {
	url, repository := os.Args[1], os.Args[2]
	h2c := &http.Transport{Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	http1 := &http.Transport{Protocols: new(http.Protocols)}
	http1.Protocols.SetHTTP1(true)
	at := time.Now().Add(-10 * time.Minute).Truncate(time.Second)
	for i, p := range []struct {
		name    string
		http    *http.Client
		options []connect.ClientOption
	}{
		{"Connect, protobuf", &http.Client{Transport: http1}, nil},
		{"Connect, JSON", &http.Client{Transport: http1}, []connect.ClientOption{connect.WithProtoJSON()}},
		{"Connect, GET", &http.Client{Transport: http1}, []connect.ClientOption{connect.WithHTTPGet()}},
		{"Connect, sent in gzip", &http.Client{Transport: http1}, []connect.ClientOption{connect.WithSendGzip()}},
		{"gRPC, HTTP/2", &http.Client{Transport: h2c}, []connect.ClientOption{connect.WithGRPC()}},
		{"gRPC, HTTP/1.1", &http.Client{Transport: http1}, []connect.ClientOption{connect.WithGRPC()}},
		{"gRPC in gzip, HTTP/1.1", &http.Client{Transport: http1}, []connect.ClientOption{connect.WithGRPC(), connect.WithSendGzip()}},
		{"gRPC-Web", &http.Client{Transport: http1}, []connect.ClientOption{connect.WithGRPCWeb()}},
	} {
		c := caller{querierv1connect.NewQuerierServiceClient(p.http, url, p.options...), at.Add(-time.Minute).UnixMilli(), at.Add(5 * time.Minute).UnixMilli()}
		check(p.name+": push", push(url, at.Add(time.Duration(i)*20*time.Second), p.http, p.options...))
		check(p.name+": Grafana's data source", c.grafana(int64(i+1)))
		check(p.name+": exemplars and profile ids", c.exemplars())
		check(p.name+": pprof, call sites, analysis", c.profiles())
		check(p.name+": in the background", c.async())
		check(p.name+": settings, rules, status", settings(p.http, url, p.options...))
		check(p.name+": files", adhoc(p.http, url, p.options...))
		check(p.name+": source code", vcs(repository, p.http, url, p.options...))
		check(p.name+": a bad request", invalid(c))
		check(p.name+": an unknown procedure", unknown(p.http, url, p.options...))
	}
	if failed {
		os.Exit(1)
	}
}
