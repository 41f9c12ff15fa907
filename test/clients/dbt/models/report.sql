{{ config(materialized='view') }}
SELECT paid.customer, paid.amount FROM {{ ref('paid') }} JOIN {{ ref('best') }} USING (customer)
