import { Link } from 'react-router'
import { Icon } from '../../ui/icons.tsx'
import type { MenuEntry } from '../../ui/menu.tsx'
import { MoreMenu } from '../../ui/more_menu.tsx'
import type { Column } from '../../ui/table_model.ts'
import type { Request } from './log.ts'
import type { Names } from './names.ts'
import { Reason } from './reason.tsx'
import { clockOf, dayOf, verdicts } from './words.ts'

export function Verdict({ request: { outcome, status_code } }: { request: Request }) {
  const { word, tone, icon } = verdicts[outcome]
  return (
    <span className={`badge ${tone}`}>
      <Icon name={icon} />
      {word}
      {outcome === 'failed' && status_code !== null && ` ${status_code}`}
    </span>
  )
}

export function Target({ request, names }: { request: Request; names: Names }) {
  const { method, host, path, edge, operation } = request
  if (operation) return <span className="mono">{operation}</span>
  if (method === null) return <>TCP {edge && names.edge(edge.id)}</>
  return (
    <>
      <span className="verb">{method}</span> {host}
      <span className="mono soft">{path}</span>
    </>
  )
}

type Wanted = {
  names: Names
  /** Rules that rows may look up. */
  asked: ReadonlySet<string>
  linkTo: (id: string) => string
  entriesOf: (request: Request) => MenuEntry[]
  isNarrow: boolean
}

const time: Column<Request> = {
  title: 'Time',
  className: 'b2',
  width: '138px',
  cell: (request) => (
    <time
      className="mono soft nowrap"
      dateTime={request.created_at}
      title={`${dayOf(request)} ${clockOf(request)} UTC`}
    >
      {clockOf(request).slice(0, 8)}
      <span className="hide-small">{clockOf(request).slice(8)}</span>
    </time>
  ),
}
const verdict: Column<Request> = {
  title: 'Verdict',
  className: 'a2',
  width: '122px',
  cell: (request) => <Verdict request={request} />,
}
const answer: Column<Request> = {
  title: 'Status',
  className: 'number low',
  width: '80px',
  cell: ({ status_code }) => status_code ?? '–',
}
const node: Column<Request> = {
  title: 'Node',
  className: 'low',
  width: '110px',
  cell: ({ node }) => <span className="soft">{node ?? '–'}</span>,
}

/** An open panel leaves room for four columns. */
export function columnsOf({ names, asked, linkTo, entriesOf, isNarrow }: Wanted): Column<Request>[] {
  const address: Column<Request> = {
    title: 'Address',
    className: 'a1',
    width: '190px',
    isRowHead: true,
    cell: ({ id, source_ip }) => (
      <Link className="row-link row-cover mono address" to={linkTo(id)} preventScrollReset>
        {source_ip ?? 'not shown'}
      </Link>
    ),
  }
  const target: Column<Request> = {
    title: 'Target and reason',
    className: 'b1',
    cell: (request) => (
      <span className="two">
        <span className="clip">
          <Target request={request} names={names} />
        </span>
        <small className="clip">
          <Reason
            request={request}
            names={names}
            isAsked={request.ip_policy_rule !== null && asked.has(request.ip_policy_rule.id)}
          />
        </small>
      </span>
    ),
  }
  const actions: Column<Request> = {
    title: 'Actions',
    titleHidden: true,
    className: 'menu-cell hide-small',
    width: '44px',
    // Members and viewers do not see the address, which every action needs.
    cell: (request) =>
      request.source_ip && (
        <MoreMenu
          label={`Actions for the request of ${request.source_ip} at ${clockOf(request)}`}
          groups={() => [{ entries: entriesOf(request) }]}
        />
      ),
  }
  return isNarrow ? [time, verdict, address, target, actions] : [time, verdict, address, target, answer, node, actions]
}

const mostAsked = 40

/** The first deciding rules only: looking up each of a thousand would take a thousand requests. */
export function rulesToAsk(rows: readonly Request[]): ReadonlySet<string> {
  const found = new Set<string>()
  for (const { ip_policy_rule } of rows) {
    if (ip_policy_rule) found.add(ip_policy_rule.id)
    if (found.size >= mostAsked) break
  }
  return found
}
