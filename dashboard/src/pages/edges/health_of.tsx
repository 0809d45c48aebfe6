import { useQuery } from '@tanstack/react-query'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { Section } from '../../ui/section.tsx'
import { type Health, State } from '../../ui/state.tsx'
import { Ago } from '../../ui/time.tsx'
import { useGroups } from './backend_options.ts'

type Reported = Shapes['BackendAddressHealth']
const words: Record<Reported['status'], string> = { up: 'Up', down: 'Down', failing: 'Failing' }
const marks: Record<Reported['status'], Health> = { up: 'up', down: 'down', failing: 'partial' }

/** Reports of nodes about a backend's upstreams, including members of groups. */
export function useHealthOf(): ((backendId: string | undefined) => Reported[]) | undefined {
  const { data, isError } = useQuery(queries.health())
  const groups = useGroups()
  if (!data || isError) return undefined
  const reported = data.addresses
  return (backendId) => {
    const group = groups?.find(({ backend }) => backend.id === backendId)
    const members = !group
      ? [backendId]
      : group.kind === 'weighted'
        ? Object.keys(group.backend.backends)
        : group.kind === 'failover'
          ? group.backend.backends
          : []
    return reported.filter(({ backend }) => members.includes(backend.id))
  }
}

const nodesText = (count: number): string => (count === 1 ? '1 node' : `${count} nodes`)

/** 'Down on fra-1, iad-1'. For phones, and for more nodes than fit into a table. */
function InWords({ reported }: { reported: readonly Reported[] }) {
  const faults = reported.filter(({ status }) => status !== 'up')
  if (faults.length === 0) return <State health="up">{`Up on ${nodesText(reported.length)}`}</State>
  const status = faults.some((each) => each.status === 'down') ? 'down' : 'failing'
  const where =
    faults.length <= 3 ? faults.map(({ node }) => node).join(', ') : `${faults.length} of ${nodesText(reported.length)}`
  return <State health={marks[status]}>{`${words[status]} on ${where}`}</State>
}

type Byline = { name: string | undefined; address: string }

const Upstream = ({ name, address }: Byline) =>
  name ? (
    <span className="two">
      {name}
      <small className="mono">{address}</small>
    </span>
  ) : (
    <span className="mono">{address}</span>
  )

const byAddressOf = (reported: readonly Reported[]): Reported[][] => [
  ...Map.groupBy(reported, ({ backend, address }) => `${backend.id} ${address}`).values(),
]
const keyOf = ([first]: readonly Reported[]): string => `${first?.backend.id} ${first?.address}`

function useNames(): (backendId: string | undefined) => string | undefined {
  const backends = useQuery(queries.backends()).data
  return (backendId) => backends?.find(({ id }) => id === backendId)?.description
}

const maxColumns = 6

/** One row per address, one column per node. */
export function HealthTable({ reported }: { reported: readonly Reported[] }) {
  const nameOf = useNames()
  if (reported.length === 0) return null
  const nodes = [...new Set(reported.map(({ node }) => node))].sort()
  const columns = nodes.length > maxColumns ? [] : nodes
  const faults = reported.filter(({ status }) => status !== 'up')
  const seen = new Map(faults.map((each) => [`${each.address} ${each.reason}`, each]))
  return (
    <Section title="Backend health" note="as edge nodes see it">
      <div className="frame">
        <table className="health-table">
          <thead>
            <tr>
              <th scope="col">Backend</th>
              {columns.map((node) => (
                <th key={node} scope="col" className="hide-small">
                  {node}
                </th>
              ))}
              <th scope="col" className={columns.length ? 'show-small' : undefined}>
                Health
              </th>
            </tr>
          </thead>
          <tbody>
            {byAddressOf(reported).map((each) => (
              <tr key={keyOf(each)}>
                <th scope="row">
                  <Upstream name={nameOf(each[0]?.backend.id)} address={each[0]?.address ?? ''} />
                </th>
                {columns.map((node) => {
                  const status = each.find((one) => one.node === node)?.status
                  return (
                    <td key={node} className="hide-small">
                      {status ? <State health={marks[status]}>{words[status]}</State> : '–'}
                    </td>
                  )
                })}
                <td className={columns.length ? 'show-small' : undefined}>
                  <InWords reported={each} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        {[...seen.values()].map(({ address, reason, since }) => (
          <p key={`${address} ${reason}`} className="table-foot fine">
            <span>
              <span className="mono">{address}</span>: {reason ?? 'no reason given'}, since <Ago at={since} />
            </span>
          </p>
        ))}
      </div>
    </Section>
  )
}
