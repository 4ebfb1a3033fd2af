-- Claims as still_owned.sql takes them.
select substr(:ids, fence.key * 16 + 1, 16), fence.value from json_each(:versions) as fence
