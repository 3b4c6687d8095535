// Package shop takes orders, is paid for them and ships them: an order is a sequence
// of three jobs of the scheduler (core/scheduler), and its rows are in PostgreSQL.
//
//	reserve   takes the items from the stock, or rejects the order
//	pay       takes the money, or cancels the order if its reservation has expired
//	fulfil    ships
//
// A worker may be killed, stopped for minutes or cut off at any point of this; the
// scheduler then runs the job again, perhaps while the first run is still at work. What
// keeps an order from being paid twice, or paid and never shipped:
//
//   - each job makes its changes in one transaction of PostgreSQL, the fenced effect
//     (core/sink/postgres) and the shop's own rows together: both or neither;
//   - the effect has an idempotency key, made of the order's id alone. A run that comes
//     later, or sends again as the answer was lost, finds it done;
//   - the effect shows the run's fencing token. A run that was stopped before it paid is
//     refused when it wakes up after another has cancelled the order: the key alone
//     would not do, as to cancel is another effect;
//   - the stock is taken by an optimistic write: only if nobody has changed it since it
//     was read, else it is read again. The fence is each order's own, and does not order
//     what two orders do to one item;
//   - a job is done when its effect is; the next one of the order exists from that very
//     moment on, as the scheduler completes the one and enqueues the other in one batch.
//
// An order ends shipped (paid once), rejected (no stock) or cancelled (not paid in time,
// its items are back in the stock). Nothing is paid for the last two.
package shop
