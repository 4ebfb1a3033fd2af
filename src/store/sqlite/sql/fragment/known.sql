-- Claims in the form that still_owned.sql takes.
select substr(:ids, fence.key * 16 + 1, 16), fence.value from json_each(:versions) as fence
