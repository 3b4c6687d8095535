// Package tracing makes one OpenTelemetry trace of a job's life and sends it to a
// collector (OTLP over HTTP, protobuf):
//
//	enqueue   the request, until it is settled where the job is
//	wait      from when an attempt was due until it began
//	run       the handler, of each attempt
//	effect    a request that the handler made
//	settle    from the handler's return until the tick that says what became of it
//
// with the attributes job.id, job.queue, job.shard, job.kind, and of what belongs to an
// attempt job.attempt and job.token, its fencing token.
//
// # One trace, many processes
//
// The trace is the one that the client's traceparent header names, else a new one. The
// enqueue span travels in the job itself ([fencepost/core/job.Job].Trace, some 70 bytes of its body
// and no request more), so whichever process runs the job, after whatever crash, goes on
// with that trace; jobs that follow in a sequence are in it, too. Requests of handlers
// have a traceparent of their own. A job that was enqueued without one, as those of
// schedules are, has a trace whose id is made of the job's (see [TraceID]): all processes make the
// same one. All jobs of one occurrence of a schedule share one.
//
// What ends a job that is not running here (a cancellation, a rescue after a crash) makes
// no span. Of an attempt whose process died nothing is seen but its gap.
//
// # What it may cost
//
// A *Tracer that is nil does nothing: all of its methods return what they were given.
// One that is not never waits for the collector: spans are queued in memory, 2048 at
// most, and dropped beyond that. A collector that fails is warned of once a minute.
// Sampling, batching, headers and the resource are set by the variables that
// OpenTelemetry defines (OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_EXPORTER_OTLP_HEADERS,
// OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES).
package tracing
