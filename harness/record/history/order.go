package history

// Order is what a customer asks for; each of its jobs has it.
type Order struct {
	ID       string `json:"id"`
	Item     string `json:"item"`
	Quantity int64  `json:"quantity"`
	Cents    int64  `json:"cents"` // for all of it
}

// Kinds of an order's jobs, in the order in which they follow each other.
const (
	OrderReserve = "reserve" // takes the items from the stock, or rejects the order
	OrderPay     = "pay"     // takes the money, or cancels the order
	OrderFulfil  = "fulfil"
)

// The shop's tables, and BookEnd, which is no row but says that all have been noted.
const (
	BookStock    = "stock"    // Item, Quantity, Version: what is left
	BookMove     = "move"     // Item, Version, Delta, Quantity (left after it), Order: "" for a delivery
	BookOrder    = "order"    // Order, Item, Quantity, Cents, State
	BookPayment  = "payment"  // Order, Cents, Token
	BookShipment = "shipment" // Order
	BookEnd      = "end"
)

// States of an order.
const (
	OrderReserved  = "reserved"
	OrderPaid      = "paid"
	OrderShipped   = "shipped"   // an end
	OrderRejected  = "rejected"  // an end: there was not enough in stock
	OrderCancelled = "cancelled" // an end: not paid in time
)

// Book is a row of the shop's tables when all processes have ended.
type Book struct {
	Table    string `json:"table"`
	Order    string `json:"order,omitempty"`
	Item     string `json:"item,omitempty"`
	Quantity int64  `json:"quantity,omitempty"`
	Version  int64  `json:"version,omitempty"`
	Delta    int64  `json:"delta,omitempty"`
	Cents    int64  `json:"cents,omitempty"`
	Token    int64  `json:"token,omitempty"` // of the run that paid
	State    string `json:"state,omitempty"`
}
