penstock_unit_test(plan permutation LINKS plan SYSTEM m)
penstock_unit_test(plan many LINKS plan)
penstock_unit_test(plan order LINKS plan)
target_compile_definitions(test_plan_order PRIVATE
  GOLDEN_FOLDER="${PROJECT_SOURCE_DIR}/tests/golden")
penstock_unit_test(plan anchors LINKS plan)
penstock_unit_test(plan round LINKS plan)
penstock_unit_test(plan mix LINKS plan)
penstock_unit_test(plan locality LINKS plan SYSTEM m)
penstock_unit_test(plan assign LINKS plan)
penstock_unit_test(plan ways LINKS plan)
penstock_unit_test(plan budget LINKS plan)
# Statistics over millions of values: what sanitizers find in them, they find in the other tests, too.
set_property(TEST unit.plan.permutation unit.plan.order APPEND PROPERTY LABELS once)
