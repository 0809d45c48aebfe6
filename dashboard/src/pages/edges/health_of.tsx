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

/** What nodes say about the upstreams of backends, those of the members of a group included. */
export function useHealthOf(): ((backendId: string | undefined) => Reported[]) | undefined {
  const reported = useQuery(queries.health()).data?.addresses
  const groups = useGroups()
  if (!reported) return undefined
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

/** By address: up only where every node says so. */
function upOf(reported: readonly Reported[]): { up: number; all: number } {
  const byAddress = Map.groupBy(reported, ({ backend, address }) => `${backend.id} ${address}`)
  const up = [...byAddress.values()].filter((each) => each.every(({ status }) => status === 'up')).length
  return { up, all: byAddress.size }
}

/** '2 of 3 up'. An address without a check is only known while it fails. */
export function HealthCell({ reported }: { reported: readonly Reported[] }) {
  const { up, all } = upOf(reported)
  if (all === 0) return <State health="unknown">No check</State>
  return <State health={up === all ? 'up' : up === 0 ? 'down' : 'partial'}>{`${up} of ${all} up`}</State>
}

export const isDegraded = (reported: readonly Reported[]): boolean => reported.some(({ status }) => status !== 'up')

/** Addresses down the side, nodes across. */
export function HealthTable({ reported }: { reported: readonly Reported[] }) {
  const backends = useQuery(queries.backends()).data
  if (reported.length === 0) return null
  const nodes = [...new Set(reported.map(({ node }) => node))].sort()
  const byAddress = [...Map.groupBy(reported, ({ backend, address }) => `${backend.id} ${address}`).values()]
  const faults = reported.filter(({ status }) => status !== 'up')
  const seen = new Map(faults.map((each) => [`${each.address} ${each.reason}`, each]))
  return (
    <Section title="Backend health" note="as edge nodes see it">
      <div className="frame">
        <table className="health-table">
          <thead>
            <tr>
              <th scope="col">Backend</th>
              <th scope="col">Address</th>
              {nodes.map((node) => (
                <th key={node} scope="col">
                  {node}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {byAddress.map((each) => {
              const [{ backend, address } = { backend: { id: '' }, address: '' }] = each
              const known = backends?.find(({ id }) => id === backend.id)
              return (
                <tr key={`${backend.id} ${address}`}>
                  <th scope="row">{known?.description ?? known?.address ?? backend.id}</th>
                  <td className="mono">{address}</td>
                  {nodes.map((node) => {
                    const status = each.find((one) => one.node === node)?.status
                    return <td key={node}>{status ? <State health={marks[status]}>{words[status]}</State> : '–'}</td>
                  })}
                </tr>
              )
            })}
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
