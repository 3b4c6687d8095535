// Package orders is the shop of examples/orders as what a run drives: the jobs of a worker
// are those of orders, each job changes the shop's tables in the transaction that accepts
// its effect, and the tables are read when the run is over. No other package of the harness
// knows the shop; those that do run (harness/scenario, harness/target/workload) have a row for it.
package orders
