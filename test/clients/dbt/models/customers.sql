{{ config(materialized='table') }}
SELECT customer, min(paid_on) AS first_paid_on FROM {{ ref('payments') }} GROUP BY customer
