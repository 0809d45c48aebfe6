import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { freePort } from '../../dev/ports.ts'
import type { Scope } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'

type Rules = { groups: { rules: { expr: string; for?: string }[] }[] }
const rulesFile = new URL('../../deploy/prometheus/gatehouse.rules.yml', import.meta.url)

/** The rules of deploy/, except that minutes and hours of waiting are seconds. */
async function hurriedRules(): Promise<string> {
  const rules: Rules = parse(await readFile(rulesFile, 'utf8'))
  for (const { rules: each } of rules.groups)
    for (const rule of each) {
      rule.expr = rule.expr.replaceAll(/\[\d+[mh]\]/g, '[20s]').replaceAll(/offset \d+m/g, 'offset 20s')
      if (rule.for) rule.for = '2s'
    }
  return stringify(rules)
}

/** A real Prometheus that asks the control plane and the node every second. */
export async function startAlerts(scope: Scope, targets: () => Record<'gatehouse' | 'gatehouse-edge', string>) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-prometheus-'))
  const port = await freePort()
  const follow = () =>
    writeFile(
      join(folder, 'targets.json'),
      JSON.stringify(
        Object.entries(targets()).map(([job, url]) => ({ targets: [new URL(url).host], labels: { job } })),
      ),
    )
  await follow()
  await writeFile(join(folder, 'rules.yml'), await hurriedRules())
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: ['rules.yml'],
    scrape_configs: [{ job_name: 'drill', file_sd_configs: [{ files: ['targets.json'], refresh_interval: '1s' }] }],
  }
  await writeFile(join(folder, 'prometheus.yml'), stringify(config))
  const flags = [`--config.file=${folder}/prometheus.yml`, `--storage.tsdb.path=${folder}/data`]
  const child = spawn('prometheus', [...flags, `--web.listen-address=127.0.0.1:${port}`], { stdio: 'ignore' })
  scope.after(async () => {
    child.kill('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  })
  const ask = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).json()
  type Alert = { state: string; labels: { alertname: string } }
  async function firing(): Promise<string> {
    const { data } = (await ask('/api/v1/alerts')) as { data: { alerts: Alert[] } }
    const names = data.alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels.alertname)
    // The drill itself refuses an address that it had let in.
    const others = names.filter((name) => name !== 'GatehouseNewlyRefused')
    return [...new Set(others)].sort().join('; ')
  }
  // Nothing has ever been backed up here, so one alert fires while all is well: from then on, others would, too.
  await poll(
    () => firing().catch(() => ''),
    (names) => names.includes('GatehouseBackupOld'),
  )
  return {
    /** A part may listen on another port after a restart. */
    follow,
    firing,
  }
}
