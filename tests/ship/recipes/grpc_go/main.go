// main.go - grpc-go, as it is, asks a gateway: what it serves by reflection, then for decisions by messages that are
// made of the answers alone, with a policy of retries and with gzip.
//
//	grpc_go ADDRESS TOKEN
//
// It prints one JSON object of what it has seen; test_grpc_go.py judges it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

const policy = `{"methodConfig": [{"name": [{"service": "tollgate.v1.Admission"}], "retryPolicy": {"maxAttempts": 3,
  "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
  "retryableStatusCodes": ["RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"]}}]}`

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

// Decision is what became of a call.
type Decision struct {
	Code     string  `json:"code"`
	Allowed  bool    `json:"allowed"`
	PushBack string  `json:"push_back"`
	HintMS   int64   `json:"hint_ms"`
	TookMS   float64 `json:"took_ms"`
}

// A client that knows no contract but what the server tells.
type client struct {
	plain, retrying *grpc.ClientConn
	admit           protoreflect.MethodDescriptor
	token           string
}

// The server's files, asked for by the names of its services.
func reflected(connection *grpc.ClientConn) ([]string, *protoregistry.Files) {
	stream := must(reflection.NewServerReflectionClient(connection).ServerReflectionInfo(context.Background()))
	ask := func(question *reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse {
		must(0, stream.Send(question))
		return must(stream.Recv())
	}
	listed := ask(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_ListServices{ListServices: "*"},
	})
	var names []string
	set, known := &descriptorpb.FileDescriptorSet{}, map[string]bool{}
	for _, service := range listed.GetListServicesResponse().Service {
		names = append(names, service.Name)
		answer := ask(&reflection.ServerReflectionRequest{
			MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service.Name},
		})
		for _, bytes := range answer.GetFileDescriptorResponse().FileDescriptorProto {
			file := &descriptorpb.FileDescriptorProto{}
			must(0, proto.Unmarshal(bytes, file))
			if !known[file.GetName()] {
				known[file.GetName()] = true
				set.File = append(set.File, file)
			}
		}
	}
	must(0, stream.CloseSend())
	sort.Strings(names)
	return names, must(protodesc.NewFiles(set))
}

func (c *client) ask(on *grpc.ClientConn, tenant string, cost int64, options ...grpc.CallOption) Decision {
	request := dynamicpb.NewMessage(c.admit.Input())
	fields := c.admit.Input().Fields()
	request.Set(fields.ByName("tenant"), protoreflect.ValueOfString(tenant))
	request.Set(fields.ByName("cost"), protoreflect.ValueOfInt64(cost))
	reply := dynamicpb.NewMessage(c.admit.Output())
	var trailer metadata.MD
	context := metadata.AppendToOutgoingContext(context.Background(),
		"authorization", "Bearer "+c.token, "x-tollgate-enforce", "1")
	began := time.Now()
	err := on.Invoke(context, "/tollgate.v1.Admission/Admit", request, reply, append(options, grpc.Trailer(&trailer))...)
	decision := Decision{
		Code:    status.Code(err).String(),
		Allowed: reply.Get(c.admit.Output().Fields().ByName("allowed")).Bool(),
		TookMS:  float64(time.Since(began).Microseconds()) / 1000,
	}
	if told := trailer.Get("grpc-retry-pushback-ms"); len(told) > 0 {
		decision.PushBack = told[0]
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			decision.HintMS = info.RetryDelay.AsDuration().Milliseconds()
		}
	}
	return decision
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: grpc_go ADDRESS TOKEN")
		os.Exit(2)
	}
	dial := func(more ...grpc.DialOption) *grpc.ClientConn {
		options := append(more, grpc.WithTransportCredentials(insecure.NewCredentials()))
		return must(grpc.NewClient("passthrough:///"+os.Args[1], options...))
	}
	c := client{plain: dial(), retrying: dial(grpc.WithDefaultServiceConfig(policy)), token: os.Args[2]}
	defer c.plain.Close()
	defer c.retrying.Close()

	names, files := reflected(c.plain)
	admission := must(files.FindDescriptorByName("tollgate.v1.Admission")).(protoreflect.ServiceDescriptor)
	c.admit = admission.Methods().ByName("Admit")
	options := admission.ParentFile().Options().(*descriptorpb.FileOptions)

	listed := must(health.NewHealthClient(c.plain).List(context.Background(), &health.HealthListRequest{}))
	states := map[string]string{}
	for name, state := range listed.Statuses {
		states[name] = state.Status.String()
	}

	out := map[string]any{
		"services": names, "health": states, "go_package": options.GetGoPackage(),
		"first":    c.ask(c.plain, "a", 1, grpc.UseCompressor(gzip.Name)),
		"refused":  c.ask(c.plain, "a", 1),
		"repeated": c.ask(c.retrying, "a", 1),
		"never":    c.ask(c.retrying, "b", 101),
	}
	text := must(json.Marshal(out))
	fmt.Println(string(text))
}
