{{ config(materialized='ephemeral') }}
SELECT customer FROM {{ ref('paid') }} ORDER BY amount DESC LIMIT 1
