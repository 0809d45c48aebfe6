// What deploy/ ships for Prometheus and Grafana: every rule fires when it should and is quiet when it should be, and every
// metric that they name exists.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { parse, stringify } from 'yaml'

const root = new URL('..', import.meta.url).pathname
const read = (file: string) => readFile(join(root, file), 'utf8')
const rulesFile = 'deploy/prometheus/gatehouse.rules.yml'
type Rule = { alert: string; expr: string; annotations: { summary: string }; labels: { severity: string } }
const rules: Rule[] = parse(await read(rulesFile)).groups.flatMap(({ rules: each }: { rules: Rule[] }) => each)

/** Series of samples a minute apart, in promtool's notation, in which the rule fires at the end or does not. */
type Series = Record<string, string>
const cases: Record<string, { fires: Series; quiet: Series; at?: string }> = {
  GatehouseDown: {
    fires: { 'up{job="gatehouse-edge",instance="a"}': '0x90', 'up{job="gatehouse",instance="b"}': '1x90' },
    quiet: { 'up{job="gatehouse",instance="a"}': '1x90', 'up{job="another"}': '0x90' },
  },
  GatehouseNotReady: { fires: { gatehouse_ready: '0x90' }, quiet: { gatehouse_ready: '0 0 1x90' } },
  GatehouseDatabaseRefusesChanges: {
    fires: { gatehouse_database_refuses_changes: '1x90' },
    quiet: { gatehouse_database_refuses_changes: '1 0x90' },
  },
  GatehouseNoStandby: {
    fires: {
      'gatehouse_db_synchronous_standbys{instance="a"}': '1 0x90',
      'gatehouse_db_synchronous_standbys{instance="b"}': '0x90',
    },
    quiet: { 'gatehouse_db_synchronous_standbys{instance="a"}': '0 1x90' },
  },
  GatehouseClockOff: {
    fires: { 'gatehouse_edge_clock_offset_seconds{instance="a"}': '-3600x90' },
    quiet: {
      'gatehouse_clock_offset_seconds{instance="a"}': '-20x90',
      'gatehouse_edge_clock_offset_seconds{instance="b"}': '0.4x90',
    },
  },
  GatehouseErrors: {
    fires: {
      'gatehouse_http_requests_total{status="200"}': '0+100x90',
      'gatehouse_http_requests_total{status="503"}': '0+3x90',
    },
    quiet: {
      'gatehouse_http_requests_total{status="200"}': '0+1000x90',
      'gatehouse_http_requests_total{status="503"}': '0+3x90',
    },
  },
  GatehouseManyDeletions: {
    fires: {
      'gatehouse_http_requests_total{operation="ip_policy_rules.delete",status="204"}': '0+10x90',
      'gatehouse_http_requests_total{operation="https_edge_routes.delete",status="204"}': '0+10x90',
    },
    quiet: {
      'gatehouse_http_requests_total{operation="ip_policy_rules.delete",status="204"}': '0+10x90',
      'gatehouse_http_requests_total{operation="static_backends.delete",status="404"}': '0+100x90',
      'gatehouse_http_requests_total{operation="api_keys.delete",status="204"}': '0+100x90',
    },
  },
  GatehouseAlertsNotEvaluated: {
    fires: { gatehouse_alert_evaluation_overdue_seconds: '0+60x90' },
    quiet: { gatehouse_alert_evaluation_overdue_seconds: '5 130 20x90' },
  },
  GatehousePoolExhausted: {
    fires: { 'gatehouse_db_connections{state="waiting"}': '3x90' },
    quiet: {
      'gatehouse_db_connections{state="waiting"}': '0 5 0 5 0 0x85',
      'gatehouse_db_connections{state="idle"}': '3x90',
    },
  },
  GatehouseNatsDisconnected: {
    fires: { 'gatehouse_nats_connected{instance="a"}': '0x90', 'gatehouse_nats_connected{instance="b"}': '1x90' },
    quiet: { 'gatehouse_nats_connected{instance="a"}': '1x90' },
  },
  GatehouseNatsAccountsOutdated: {
    fires: { 'gatehouse_nats_accounts_outdated{instance="a"}': '1x90' },
    quiet: { 'gatehouse_nats_accounts_outdated{instance="a"}': '0x90' },
  },
  GatehouseNoPublisher: {
    // One cell has a publisher, and another has none.
    fires: {
      'gatehouse_publisher_active{instance="a",cell="default"}': '1x90',
      'gatehouse_publisher_active{instance="a",cell="eu"}': '0x90',
      'gatehouse_nats_connected{instance="a"}': '1x90',
    },
    quiet: {
      'gatehouse_publisher_active{instance="a",cell="eu"}': '0x90',
      'gatehouse_publisher_active{instance="b",cell="eu"}': '1x90',
      'gatehouse_nats_connected{instance="a"}': '1x90',
    },
  },
  GatehousePublisherLag: {
    fires: {
      'gatehouse_publisher_generations_behind{instance="a",cell="eu"}': '5x90',
      'gatehouse_publisher_active{instance="a",cell="eu"}': '1x90',
    },
    quiet: {
      'gatehouse_publisher_generations_behind{instance="a",cell="eu"}': '5x90',
      'gatehouse_publisher_active{instance="a",cell="eu"}': '0x90',
    },
  },
  GatehouseHeldBack: {
    fires: {
      'gatehouse_publisher_held_back{instance="a",cell="eu"}': '1x90',
      'gatehouse_publisher_held_back{instance="b",cell="eu"}': '0x90',
    },
    quiet: { 'gatehouse_publisher_held_back{instance="a",cell="eu"}': '0x90' },
  },
  GatehouseWebhookBacklog: {
    fires: { gatehouse_webhook_oldest_pending_seconds: '0+60x90' },
    quiet: { gatehouse_webhook_oldest_pending_seconds: '300x90' },
  },
  GatehouseRolloutHalted: {
    fires: { 'gatehouse_rollouts{state="halted"}': '0x80 1x10' },
    quiet: { 'gatehouse_rollouts{state="watching"}': '1x90' },
  },
  GatehouseRolloutStuck: {
    fires: { gatehouse_rollout_overdue_seconds: '0+60x90' },
    quiet: { gatehouse_rollout_overdue_seconds: '300x90' },
  },
  GatehouseChangeSetNotUndone: {
    fires: { 'gatehouse_unconfirmed_change_sets{state="revert_failed"}': '1x90' },
    quiet: {
      'gatehouse_unconfirmed_change_sets{state="waiting"}': '3x90',
      'gatehouse_unconfirmed_change_sets{state="overdue"}': '0x90',
    },
  },
  GatehouseChangeWithoutApproval: {
    fires: { gatehouse_changes_without_approval_total: '0+1x90' },
    quiet: { gatehouse_changes_without_approval_total: '3x90' },
  },
  // The test's clock starts in 1970.
  GatehouseBackupOld: {
    fires: { 'gatehouse_backup_timestamp_seconds{instance="a"}': '-200000x90' },
    quiet: {
      'gatehouse_backup_timestamp_seconds{instance="a"}': '-200000x90',
      'gatehouse_backup_timestamp_seconds{instance="b"}': '0x90',
    },
  },
  GatehouseCertificateExpires: {
    fires: { 'gatehouse_certificate_expiry_timestamp_seconds{account="ac_1",certificate="cert_1"}': '600000x90' },
    quiet: { 'gatehouse_certificate_expiry_timestamp_seconds{account="ac_1",certificate="cert_1"}': '700000x90' },
  },
  GatehouseRenewalFails: {
    fires: { 'gatehouse_acme_failures_total{code="ERR_X"}': '0+1x90' },
    quiet: {
      'gatehouse_acme_failures_total{code="ERR_X"}': '0x50 1x40',
      'gatehouse_acme_domains{state="overdue"}': '0x90',
      'gatehouse_acme_domains{state="waiting"}': '2x90',
    },
  },
  GatehouseNodeGone: {
    fires: {
      'gatehouse_edge_nodes_by_state{state="down"}': '1x90',
      'gatehouse_edge_nodes_by_state{state="up"}': '2x90',
    },
    // A process that does not hear from nodes does not know that they are gone.
    quiet: {
      'gatehouse_edge_nodes_by_state{state="down"}': '0x90',
      'gatehouse_edge_nodes_by_state{state="unknown"}': '3x90',
    },
  },
  GatehouseNodeBehind: {
    fires: { 'gatehouse_edge_nodes_behind{instance="a"}': '0x90', 'gatehouse_edge_nodes_behind{instance="b"}': '1x90' },
    quiet: { 'gatehouse_edge_nodes_behind{instance="a"}': '1 0 1 0x88' },
  },
  GatehouseNodeNotReady: { fires: { gatehouse_edge_ready: '0x90' }, quiet: { gatehouse_edge_ready: '0 0 1x90' } },
  GatehouseNodeCannotWrite: {
    fires: { gatehouse_edge_nodes_storage_failing: '1x90' },
    quiet: { gatehouse_edge_nodes_storage_failing: '1 0 0x90' },
  },
  GatehouseProxyChanged: {
    fires: { 'gatehouse_edge_differences_total{instance="n"}': '0x80 3x10' },
    quiet: {
      'gatehouse_edge_differences_total{instance="n"}': '3x90',
      'gatehouse_edge_differs{instance="n"}': '1 0x89',
    },
  },
  GatehouseProxyNotCompared: {
    // The time at the end is 90 minutes after zero.
    fires: { 'gatehouse_edge_agreement_timestamp_seconds{instance="n"}': '60x90' },
    quiet: { 'gatehouse_edge_agreement_timestamp_seconds{instance="n"}': '0+60x90' },
  },
  GatehouseEmergencyOrder: {
    fires: { gatehouse_edge_nodes_in_emergency: '2x90' },
    quiet: { gatehouse_edge_nodes_in_emergency: '2x80 0x10' },
  },
  GatehouseNameWithoutCertificate: {
    fires: { gatehouse_edge_nodes_missing_certificates: '2x90' },
    quiet: { gatehouse_edge_nodes_missing_certificates: '2x5 0x90' },
  },
  GatehouseLimitsShut: {
    fires: { gatehouse_edge_nodes_shut_limits: '2x90' },
    quiet: { gatehouse_edge_nodes_shut_limits: '2 0x90' },
  },
  GatehouseRecordsRefused: {
    fires: { gatehouse_edge_nodes_refusals: '2x90' },
    quiet: { gatehouse_edge_nodes_refusals: '0x90' },
  },
  GatehouseLuaErrors: {
    fires: { 'gatehouse_edge_lua_errors_total{instance="n"}': '0x80 3x10' },
    quiet: { 'gatehouse_edge_lua_errors_total{instance="n"}': '3x90' },
  },
  GatehouseBackendDown: {
    fires: { 'gatehouse_edge_nodes_upstreams{status="down"}': '1x90' },
    quiet: {
      'gatehouse_edge_nodes_upstreams{status="down"}': '0x90',
      'gatehouse_edge_nodes_upstreams{status="up"}': '4x90',
    },
  },
  GatehouseUpstreamErrors: {
    fires: {
      'gatehouse_edge_route_requests_total{account="a",edge="e",route="r",status="2xx"}': '0+60x90',
      'gatehouse_edge_route_requests_total{account="a",edge="e",route="r",status="5xx"}': '0+10x90',
      'gatehouse_edge_route_upstream_errors_total{account="a",edge="e",route="r"}': '0+10x90',
    },
    quiet: {
      'gatehouse_edge_route_requests_total{account="a",edge="e",route="r",status="2xx"}': '0+600x90',
      'gatehouse_edge_route_upstream_errors_total{account="a",edge="e",route="r"}': '0+10x90',
    },
  },
  GatehouseRefusalsJump: {
    fires: { 'gatehouse_edge_account_refused_total{account="a"}': '0+60x75 5000+6000x15' },
    quiet: { 'gatehouse_edge_account_refused_total{account="a"}': '0+6000x90' },
  },
  GatehouseNewlyRefused: {
    fires: { 'gatehouse_newly_refused_addresses{type="api"}': '0x40 2x50' },
    quiet: { 'gatehouse_newly_refused_addresses{type="api"}': '0x40 2 0x49' },
  },
  GatehouseLinesDropped: {
    fires: { 'gatehouse_edge_requests_dropped_total{instance="n"}': '0x80 20x10' },
    quiet: {
      'gatehouse_edge_requests_dropped_total{instance="n"}': '20x90',
      'gatehouse_edge_access_log_dropped_total{instance="n"}': '7x90',
    },
  },
  GatehouseLogLinesLost: {
    fires: { 'gatehouse_log_lines_lost_total{instance="n"}': '0x80 20x10' },
    quiet: { 'gatehouse_log_lines_lost_total{instance="n"}': '20x90' },
  },
  GatehouseRuleHitsLost: {
    fires: { gatehouse_edge_rule_hits_lost_total: '0x70 5x20' },
    quiet: { gatehouse_edge_rule_hits_lost_total: '5x90' },
  },
}

const hasPromtool = spawnSync('promtool', ['--version']).error === undefined
async function promtool(
  t: TestContext,
  command: string[],
  contents: Record<string, unknown>,
  given = Object.keys(contents),
) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-rules-'))
  t.after(() => rm(folder, { recursive: true }))
  for (const [file, content] of Object.entries(contents)) await writeFile(join(folder, file), stringify(content))
  const { status, stdout, stderr } = spawnSync('promtool', [...command, ...given], { cwd: folder, encoding: 'utf8' })
  assert.equal(status, 0, `${stdout}\n${stderr}`)
}

test('every alert fires when it should, and is quiet when it should be', async (t) => {
  if (!hasPromtool) return t.skip('promtool is not installed')
  assert.deepEqual(rules.map(({ alert }) => alert).sort(), Object.keys(cases).sort(), 'each has both cases')
  await promtool(t, ['check', 'rules'], {}, [join(root, rulesFile)])
  // Each with its own rule only: evaluating all rules in every case takes fourteen times as long.
  const contents = rules.flatMap((rule): [string, unknown][] => {
    const { fires, quiet } = cases[rule.alert] ?? assert.fail(rule.alert)
    const tests = [fires, quiet].map((series, index) => ({
      interval: '1m',
      input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
      promql_expr_test: [
        {
          expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
          eval_time: '85m',
          exp_samples: index === 0 ? [{ labels: `{alertname="${rule.alert}"}`, value: 1 }] : [],
        },
      ],
    }))
    const rule_files = [`${rule.alert}.rules.yml`]
    return [
      [`${rule.alert}.rules.yml`, { groups: [{ name: 'one', rules: [rule] }] }],
      [`${rule.alert}.test.yml`, { rule_files, evaluation_interval: '1m', tests }],
    ]
  })
  const tests = rules.map(({ alert }) => `${alert}.test.yml`)
  await promtool(t, ['test', 'rules'], Object.fromEntries(contents), tests)
})

type Panel = { title: string; targets?: { expr: string }[] }
const dashboard: { panels: Panel[]; uid: string } = JSON.parse(await read('deploy/grafana/gatehouse.json'))
const charted = dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })))

test('Prometheus accepts every expression of the dashboard', async (t) => {
  if (!hasPromtool) return t.skip('promtool is not installed')
  assert.ok(charted.length > 15)
  const expressions = charted.map(({ expr }, index) => ({
    record: `panel_${index}`,
    expr: expr.replaceAll('$__rate_interval', '5m').replaceAll(/\$(node|account)/g, '.*'),
  }))
  await promtool(t, ['check', 'rules'], { 'panels.yml': { groups: [{ name: 'panels', rules: expressions }] } })
})

test('every metric in alerts and on the dashboard is one that we have', async () => {
  // Tests hold these tables equal to the code.
  const tables = await read('docs/reference/metrics.md')
  const known = new Set([...tables.matchAll(/^\| `(gatehouse_\w+)` \|/gm)].map(([, name]) => name))
  const named = [...rules.map(({ alert, expr }) => ({ title: alert, expr })), ...charted]
  for (const { title, expr } of named) {
    const metrics = [...expr.matchAll(/gatehouse_\w+/g)].map(([name]) =>
      name.replace(/_seconds_(?:bucket|sum|count)$/, '_seconds'),
    )
    // Prometheus itself has `up`.
    assert.ok(metrics.length > 0 || expr.startsWith('up{'), title)
    for (const metric of metrics) assert.ok(known.has(metric), `${title} names ${metric}, which nothing exports`)
  }
})

test('docs/operate/monitoring.md says what to do about every alert, and about no other', async () => {
  const rows = [...(await read('docs/operate/monitoring.md')).matchAll(/^\| `(Gatehouse\w+)` \|/gm)].map(
    ([, name]) => name,
  )
  assert.deepEqual(
    rows,
    rules.map(({ alert }) => alert),
  )
})
