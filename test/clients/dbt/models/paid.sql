{{ config(materialized='view') }}
SELECT id, customer, amount FROM {{ ref('payments') }} WHERE amount IS NOT NULL
