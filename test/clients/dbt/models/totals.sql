{{ config(materialized='materialized_view') }}
SELECT customer, sum(amount) AS total, count(*) AS payments FROM {{ ref('payments') }} GROUP BY customer
