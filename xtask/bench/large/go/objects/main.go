// Creates, converts, validates and lists the objects of a cluster, as controllers do.
//
// Arguments: SECONDS [PERCENT OF A PROCESSOR]
package main

import (
	"bytes"
	"fmt"
	"math/rand"
	"reflect"
	"sort"

	"agent.test/bench/pace"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	var kinds []schema.GroupVersionKind
	for kind := range scheme.Scheme.AllKnownTypes() {
		kinds = append(kinds, kind)
	}
	sort.Slice(kinds, func(a, b int) bool { return kinds[a].String() < kinds[b].String() })
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(7), scheme.Codecs)
	asJSON := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{})
	asYAML := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true})
	asProtobuf := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	pace.Run(func(turn int) {
		kind := kinds[turn*31%len(kinds)]
		object, err := scheme.Scheme.New(kind)
		pace.Check(err)
		fill.Fill(object)
		object.GetObjectKind().SetGroupVersionKind(kind)
		for nth, serializer := range []runtime.Serializer{asJSON, asYAML, asProtobuf} {
			var text bytes.Buffer
			// Some kinds have no form of their own in a format.
			if serializer.Encode(object, &text) != nil {
				continue
			}
			copied, _, err := serializer.Decode(text.Bytes(), &kind, nil)
			if err == nil && nth == turn%3 {
				_ = reflect.DeepEqual(object, copied)
				_ = fmt.Sprintf("%v", copied)
			}
		}
		scheme.Scheme.Default(object)
		patch(object)
	})
}

// Computes and applies the difference to a changed copy.
func patch(object runtime.Object) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return
	}
	copied := runtime.DeepCopyJSON(content)
	copied["metadata"] = map[string]any{"name": "other", "labels": map[string]any{"a": "b"}}
	if difference, err := strategicpatch.CreateTwoWayMergeMapPatch(content, copied, object); err == nil {
		_, _ = strategicpatch.StrategicMergeMapPatch(content, difference, object)
	}
}
