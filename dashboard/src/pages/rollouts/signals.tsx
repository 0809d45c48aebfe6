import { Link } from 'react-router'
import { Badge } from '../../ui/badge.tsx'
import { DataTable } from '../../ui/data_table.tsx'
import { Section } from '../../ui/section.tsx'
import type { Column } from '../../ui/table_model.ts'
import { type Details, useNames } from './words.tsx'

type Evidence = Details['evidence'][number]
type Signal = { signal: string; name: string; when: string }

const signals: readonly Signal[] = [
  { signal: 'record', name: 'Records', when: 'a node refuses one' },
  { signal: 'proxy', name: 'HAProxy', when: 'it ends on a node' },
  { signal: 'difference', name: 'Entries', when: 'HAProxy lacks one, or has another' },
  { signal: 'addresses', name: 'Addresses', when: 'some that were let in lately are refused' },
  { signal: 'answers', name: 'Answers', when: 'more fail than before and elsewhere, or get 4xx and fewer succeed' },
]

/** The watched signals, and the evidence that halted it. */
export function Signals({ rollout, isAdmin }: { rollout: Details; isAdmin: boolean }) {
  const { state, evidence } = rollout
  if (state !== 'watching' && state !== 'halted') return null
  const known = new Set(signals.map(({ signal }) => signal))
  const others = [...new Set(evidence.map(({ signal }) => signal))].filter((signal) => !known.has(signal))
  const all = [...signals, ...others.map((signal) => ({ signal, name: signal, when: 'not known here' }))]
  const quiet = state === 'halted' ? 'Did not halt it' : 'Has not halted it'
  return (
    <>
      <Section title="Signals" note={state === 'halted' && evidence.length === 0 ? 'a person halted it' : undefined}>
        <div className="frame">
          <table className="signals">
            <thead>
              <tr>
                <th scope="col">Signal</th>
                <th scope="col">What was seen</th>
                <th scope="col">Halts when</th>
              </tr>
            </thead>
            <tbody>
              {all.map(({ signal, name, when }) => {
                const seen = evidence.filter((each) => each.signal === signal)
                return (
                  <tr key={signal}>
                    <th scope="row">
                      {name} {seen.length > 0 && <Badge tone="refused">Halted it</Badge>}
                    </th>
                    <td>
                      {seen.length === 0 && <span className="soft">{quiet}</span>}
                      {seen.map((each) => (
                        <p key={`${each.node} ${each.target} ${each.sentence}`}>
                          <Sentence evidence={each} />
                        </p>
                      ))}
                    </td>
                    <td className="fine">{when}</td>
                  </tr>
                )
              })}
            </tbody>
          </table>
        </div>
      </Section>
      <Addresses evidence={evidence} isAdmin={isAdmin} />
    </>
  )
}

/** Replaces the id of the edge or route with its name. */
function Sentence({ evidence: { sentence, target } }: { evidence: Evidence }) {
  const named = useNames()(target ?? '')
  if (!target || !named || !sentence.includes(target)) return <>{sentence}</>
  const [before, ...after] = sentence.split(target)
  return (
    <>
      {before}
      <Link to={named.to}>{named.name}</Link>
      {after.join(named.name)}
    </>
  )
}

type Row = { address: string; node: string; target: string }

function Addresses({ evidence, isAdmin }: { evidence: readonly Evidence[]; isAdmin: boolean }) {
  const nameOf = useNames()
  const concerned = evidence.filter(({ signal }) => signal === 'addresses')
  if (concerned.length === 0) return null
  const rows = concerned.flatMap(({ addresses, node, target }): Row[] =>
    addresses.map((address) => ({ address, node: node ?? 'not known', target: target ?? '' })),
  )
  const columns: Column<Row>[] = [
    {
      title: 'Address',
      className: 'a1',
      isRowHead: true,
      cell: ({ address }) => <span className="mono">{address}</span>,
    },
    { title: 'Refused at', className: 'b1', cell: ({ target }) => nameOf(target)?.name ?? target },
    { title: 'On', className: 'a2', cell: ({ node }) => node },
    {
      title: 'Requests',
      titleHidden: true,
      className: 'b2',
      cell: ({ address }) => (
        <Link to={`/traffic?from=${encodeURIComponent(address)}`}>
          Show in Traffic<span className="for-readers">: {address}</span>
        </Link>
      ),
    },
  ]
  return (
    <Section title="Addresses" note={isAdmin ? 'some of those that the sentences above count' : undefined}>
      {isAdmin ? (
        <DataTable
          label="Addresses"
          rows={rows}
          keyOf={({ address, target, node }) => `${address} ${target} ${node}`}
          columns={columns}
        />
      ) : (
        <p className="soft">Only admins see the addresses of clients.</p>
      )}
    </Section>
  )
}
