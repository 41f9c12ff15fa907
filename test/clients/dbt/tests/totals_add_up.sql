SELECT 1 WHERE (SELECT sum(total) FROM {{ ref('totals') }}) <> (SELECT sum(amount) FROM {{ ref('payments') }})
