-- What must never be: a row for each finding, none if the books are right.

SELECT 'order ' || o.id || ' is ' || o.state || ' and was paid ' || count(p.id) || ' times' AS finding
  FROM orders o LEFT JOIN payments p ON p.order_id = o.id
  GROUP BY o.id HAVING count(p.id) <> CASE WHEN o.state IN ('paid', 'shipped') THEN 1 ELSE 0 END
UNION ALL
SELECT 'order ' || o.id || ' costs ' || o.cents || ' and ' || p.cents || ' was charged'
  FROM orders o JOIN payments p ON p.order_id = o.id WHERE o.cents <> p.cents
UNION ALL
SELECT 'order ' || o.id || ' is ' || o.state || ' and was shipped ' || count(s.id) || ' times'
  FROM orders o LEFT JOIN shipments s ON s.order_id = o.id
  GROUP BY o.id HAVING count(s.id) <> CASE WHEN o.state = 'shipped' THEN 1 ELSE 0 END
UNION ALL
SELECT 'order ' || o.id || ' is ' || o.state || ' and holds ' || -coalesce(sum(m.delta), 0) || ' of ' || o.item
  FROM orders o LEFT JOIN stock_moves m ON m.order_id = o.id
  GROUP BY o.id HAVING -coalesce(sum(m.delta), 0) <> CASE WHEN o.state IN ('rejected', 'cancelled') THEN 0 ELSE o.quantity END
UNION ALL
SELECT 'there are ' || k.quantity || ' of ' || k.item || ', but ' || coalesce(sum(m.delta), 0) || ' by what came and went'
  FROM stock k LEFT JOIN stock_moves m ON m.item = k.item
  GROUP BY k.item HAVING k.quantity <> coalesce(sum(m.delta), 0)
UNION ALL
SELECT 'version ' || version || ' of ' || item || ' was made ' || count(*) || ' times'
  FROM stock_moves GROUP BY item, version HAVING count(*) > 1
UNION ALL
SELECT 'there were ' || quantity || ' of ' || item || ' at version ' || version
  FROM stock_moves WHERE quantity < 0
ORDER BY 1
