// SPDX-License-Identifier: Apache-2.0

// Sends one profile, of 7 s in heavy and 3 s in light, by the OpenTelemetry Collector's own exporters: otlp-pdata ENDPOINT-WITHOUT-SCHEME grpc|proto|json.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/exporter/xexporter"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func profiles(service string) pprofile.Profiles {
	all := pprofile.NewProfiles()
	dictionary := all.Dictionary()
	strings := []string{"", "cpu", "nanoseconds", "main", "heavy", "light", "work.go", "thread.name", "worker"}
	dictionary.StringTable().FromRaw(strings)
	dictionary.MappingTable().AppendEmpty()
	dictionary.LinkTable().AppendEmpty()
	dictionary.AttributeTable().AppendEmpty()
	thread := dictionary.AttributeTable().AppendEmpty()
	thread.SetKeyStrindex(7)
	thread.Value().SetStr("worker")
	dictionary.FunctionTable().AppendEmpty()
	dictionary.LocationTable().AppendEmpty()
	for i := int32(1); i <= 3; i++ {
		function := dictionary.FunctionTable().AppendEmpty()
		function.SetNameStrindex(i + 2)
		function.SetFilenameStrindex(6)
		line := dictionary.LocationTable().AppendEmpty().Lines().AppendEmpty()
		line.SetFunctionIndex(i)
		line.SetLine(int64(10 * i))
	}
	dictionary.StackTable().AppendEmpty()
	dictionary.StackTable().AppendEmpty().LocationIndices().FromRaw([]int32{2, 1})
	dictionary.StackTable().AppendEmpty().LocationIndices().FromRaw([]int32{3, 1})

	resource := all.ResourceProfiles().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", service)
	resource.Resource().Attributes().PutStr("host.name", "h1")
	profile := resource.ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
	for _, value := range []pprofile.ValueType{profile.SampleType(), profile.PeriodType()} {
		value.SetTypeStrindex(1)
		value.SetUnitStrindex(2)
	}
	profile.SetPeriod(10000000)
	profile.SetTime(pcommon.NewTimestampFromTime(time.Now().Add(-10 * time.Second)))
	profile.SetDurationNano(10000000000)
	for i, value := range []int64{7000000000, 3000000000} {
		sample := profile.Samples().AppendEmpty()
		sample.SetStackIndex(int32(i + 1))
		sample.AttributeIndices().FromRaw([]int32{1})
		sample.Values().FromRaw([]int64{value})
	}
	return all
}

func main() {
	endpoint, form := os.Args[1], os.Args[2]
	factory := otlpexporter.NewFactory()
	settings := map[string]any{"sending_queue": map[string]any{"enabled": false}, "retry_on_failure": map[string]any{"enabled": false}}
	if form == "grpc" {
		settings["endpoint"] = endpoint
		settings["tls"] = map[string]any{"insecure": true}
	} else {
		factory = otlphttpexporter.NewFactory()
		settings["endpoint"] = "http://" + endpoint
		settings["encoding"] = form
	}
	config := factory.CreateDefaultConfig()
	must(confmap.NewFromStringMap(settings).Unmarshal(config))
	set := exporter.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	sender, err := factory.(xexporter.Factory).CreateProfiles(context.Background(), set, config)
	must(err)
	must(sender.Start(context.Background(), componenttest.NewNopHost()))
	must(sender.ConsumeProfiles(context.Background(), profiles("shop."+form)))
	must(sender.Shutdown(context.Background()))
	fmt.Println("sent")
}
