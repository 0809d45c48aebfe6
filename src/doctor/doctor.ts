import { checkBackup } from './backup.ts'
import { checkControlPlane, checkMigration } from './control_plane.ts'
import { checkEdge } from './edge.ts'
import { type Finding, failed, ok } from './finding.ts'
import { checkNatsFolder } from './nats_folder.ts'
import { checkCredentials, checkServiceState } from './service_state.ts'
import { gatehouseUnits, readService, type Service, unitName } from './services.ts'
import { checkNames, rolesIn } from './settings.ts'

export const doctorOutputs = ['text', 'json'] as const
type Output = (typeof doctorOutputs)[number]

/** Findings about a service or, without a name, about the settings in the environment. */
type Section = { service?: string; findings: Finding[] }

type Asked = {
  environment: NodeJS.ProcessEnv
  /** A unit. Undefined: the settings in the environment or, if there are none, all units of this machine. */
  service: string | undefined
  output: Output
}

/** Checks what this machine's programs would encounter if they started now. */
export async function doctor({ environment, service, output }: Asked): Promise<number> {
  const sections = await examine(environment, service)
  console.log(output === 'json' ? asJson(sections) : asText(sections))
  return sections.some(({ findings }) => countOf(findings, 'failed') > 0) ? 1 : 0
}

async function examine(environment: NodeJS.ProcessEnv, service: string | undefined): Promise<Section[]> {
  const node = ok('node.version', `${process.versions.node} (${process.execPath})`)
  const { controlPlane, edge } = rolesIn(environment)
  if (service === undefined && (controlPlane || edge)) {
    const areas = [
      ...(controlPlane ? checkControlPlane(environment) : []),
      ...(edge ? checkEdge(environment) : []),
      Promise.resolve(checkNames(environment)),
    ]
    return [{ findings: [node, ...(await Promise.all(areas)).flat()] }]
  }
  const units = service === undefined ? await gatehouseUnits() : [unitName(service)]
  if (units.length === 0) return [{ findings: [node, nothingSet] }]
  if (process.getuid?.() !== 0) return [{ findings: [node, notRoot] }]
  return [{ findings: [node] }, ...(await Promise.all(units.map(examineUnit)))]
}

const nothingSet = failed(
  'settings',
  'there are neither settings of a control plane nor of an edge node in the environment, nor units of Gatehouse on this machine',
  "Name the file of settings: 'gatehouse doctor --env-file FILE', or the unit: '--service NAME'",
)
const notRoot = failed(
  'doctor.user',
  'only root can read the passwords of the services on this machine',
  'Run it as root: sudo gatehouse doctor',
)

async function examineUnit(unit: string): Promise<Section> {
  const service = await readService(unit).catch((error: Error) => error)
  if (service instanceof Error)
    return {
      service: unit,
      findings: [failed('service.state', `systemd does not answer: ${service.message.trim()}`, 'Is systemd running?')],
    }
  const state = checkServiceState(service)
  if (service.state.load !== 'loaded') return { service: unit, findings: state }
  const areas = [state, checkCredentials(service), ...checksOf(service)]
  return { service: unit, findings: (await Promise.all(areas)).flat() }
}

/** Uses this process's Node and PATH: the service has the same, and the packages bring their own Node. */
function checksOf(service: Service): Promise<Finding[]>[] {
  const { kind, environment } = service
  switch (kind) {
    case 'serve':
      return [...checkControlPlane(environment, service), Promise.resolve(checkNames(environment))]
    case 'edge':
      return [...checkEdge(environment, service), Promise.resolve(checkNames(environment))]
    case 'migrate':
      return checkMigration(environment)
    case 'backup':
      return checkBackup(service)
    case 'nats':
      return [checkNatsFolder(service)]
    case undefined:
      return [Promise.resolve([unknownCommand(service)])]
  }
}

const unknownCommand = ({ unit, commandLine }: Service): Finding =>
  failed(
    'service.command',
    `${unit} runs '${commandLine}', which is none of the commands of Gatehouse`,
    'Name another unit, or its settings: gatehouse doctor --env-file FILE',
  )

const countOf = (findings: Finding[], wanted: Finding['status']) =>
  findings.filter(({ status }) => status === wanted).length

function asText(sections: Section[]): string {
  const all = sections.flatMap(({ findings }) => findings)
  const width = Math.max(...all.map(({ check }) => check.length))
  const line = ({ check, status, message, hint }: Finding) =>
    `${status.padEnd(7)}  ${check.padEnd(width)}  ${message}${hint && `. ${hint}.`}`.replace(/([.?])\.$/, '$1')
  const lines = sections.flatMap(({ service, findings }) => [...(service ? ['', service] : []), ...findings.map(line)])
  const [good, warnings, faults] = (['ok', 'warning', 'failed'] as const).map((status) => countOf(all, status))
  return [...lines, '', `${good} ok, ${warnings} ${warnings === 1 ? 'warning' : 'warnings'}, ${faults} failed`].join(
    '\n',
  )
}

function asJson(sections: Section[]): string {
  const checks = sections.flatMap(({ service, findings }) =>
    findings.map((finding) => ({ ...(service && { service }), ...finding })),
  )
  return JSON.stringify({ status: countOf(checks, 'failed') === 0 ? 'ok' : 'failed', checks }, null, 2)
}
