import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { $api, answerOf, api } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { Problem } from '../../api/problem.ts'
import { Button } from '../../ui/button.tsx'
import { CopyId } from '../../ui/copy_id.tsx'
import { Skeleton } from '../../ui/loading.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { SidePanel } from '../../ui/side_panel.tsx'
import { Empty } from '../../ui/states.tsx'
import { choicesOf } from '../check/act.tsx'
import { useCheckNow } from '../check/allow_now.tsx'
import { questionOf, targetOf } from './act_on.tsx'
import { Target, Verdict } from './columns.tsx'
import { Decision } from './decision.tsx'
import { momentOf, type Request } from './log.ts'
import type { Names } from './names.ts'
import { dayOf } from './words.ts'

type Props = {
  id: string
  /** The row from the list, if present: allowed requests are stored nowhere else. */
  row: Request | undefined
  names: Names
  onAct: (request: Request) => void
  onClose: () => void
  onPrevious?: (() => void) | undefined
  onNext?: (() => void) | undefined
}

/**
 * A node reports a request within a second or two. Someone with its id may be faster, so the panel waits this long.
 */
const arrivesWithinMs = 15_000
const isYoung = (id: string): boolean => Date.now() - (momentOf(id) ?? 0) < arrivesWithinMs
const isMissing = (error: unknown): boolean => error instanceof Problem && error.status === 404

const requestOf = (id: string) => ({
  queryKey: ['get', '/requests/{id}', id],
  queryFn: () => answerOf(api.GET('/requests/{id}', { params: { path: { id } } })),
  staleTime: Number.POSITIVE_INFINITY,
  retry: (_: number, error: unknown) => isMissing(error) && isYoung(id),
  retryDelay: 400,
})

/** One request, identified by its id: what decided about it, and the possible actions. */
export function RequestPanel({ id, row, ...props }: Props) {
  const found = useQuery({ ...requestOf(id), enabled: row === undefined })
  const request = row ?? found.data
  if (request) return <Shown request={request} {...props} />
  const { onClose, onPrevious, onNext } = props
  return (
    <SidePanel title={found.isError ? 'Not found' : 'Looking for the request…'} {...{ onClose, onPrevious, onNext }}>
      {!found.isError && <Skeleton lines={6} />}
      {found.isError && isMissing(found.error) && (
        <Empty title="No such request is kept">
          Refused, warned, limited and failed requests of this account are kept for 7 days by default, up to a limit per
          hour. Allowed requests are not kept.
        </Empty>
      )}
      {found.isError && !isMissing(found.error) && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      <CopyId id={id} />
    </SidePanel>
  )
}

function Shown({ request, names, onAct, ...sides }: Omit<Props, 'id' | 'row'> & { request: Request }) {
  const mayChange = useMayChange()
  const isRuled = request.outcome === 'refused' || request.outcome === 'warned'
  const check = useCheckNow(questionOf(request), request.source_ip !== null)
  const choices = check.data && isRuled ? choicesOf(check.data) : []
  return (
    <SidePanel
      title={request.source_ip ?? 'Address not shown'}
      above={
        <p className="panel-verdict">
          <Verdict request={request} />
          <span className="fine">{inBrief(request)}</span>
        </p>
      }
      below={
        <p className="fine breaks">
          <Target request={request} names={names} />
        </p>
      }
      {...sides}
      footer={
        <>
          {mayChange && choices[0] && (
            <Button kind="primary" onPress={() => onAct(request)}>
              {choices[0].deny === undefined ? 'Allow this address…' : 'Change rule…'}
            </Button>
          )}
          {request.source_ip && (
            <Link
              className="button plain"
              to={`/check?ip=${encodeURIComponent(request.source_ip)}&target=${targetOf(request)}`}
            >
              Check this address
            </Link>
          )}
        </>
      }
    >
      <Decision request={request} names={names} />
      {isRuled && check.data && choices.length === 0 && (
        <p className="note allowed">The rules have changed since: this address would be let in now.</p>
      )}
      {request.source_ip && <ThisAddress ip={request.source_ip} />}
      <Facts request={request} names={names} />
    </SidePanel>
  )
}

function inBrief({ status_code, duration_ms }: Request): string {
  const took = duration_ms === null ? '' : `in ${duration_ms} ms`
  return [status_code, took].filter(Boolean).join(' ')
}

const dayMs = 24 * 60 * 60 * 1_000
const count = new Intl.NumberFormat('en')

/** Counts only stored requests; allowed ones are not stored. */
function ThisAddress({ ip }: { ip: string }) {
  const since = new Date(Math.floor(Date.now() / 60_000) * 60_000 - dayMs).toISOString()
  const kept = $api.useQuery(
    'get',
    '/requests',
    { params: { query: { source_ip: ip, since, limit: 100 } } },
    { staleTime: 30_000, retry: false },
  ).data
  if (!kept) return null
  const totals = new Map<string, number>()
  for (const { outcome } of kept.requests) totals.set(outcome, (totals.get(outcome) ?? 0) + 1)
  const words = [...totals].map(([outcome, total]) => `${count.format(total)} ${outcome}`).join(', ')
  return (
    <section aria-label="This address">
      <h3>This address, last 24 hours</h3>
      <p className="between">
        <span>
          {words || 'Nothing was refused or failed.'}
          {kept.next_page_uri !== null && ' of the last 100'}
        </span>
        <Link to={`/traffic?from=${encodeURIComponent(ip)}`}>Only this address</Link>
      </p>
    </section>
  )
}

function Facts({ request, names }: { request: Request; names: Names }) {
  const { id, node, generation, edge, upstream, trace_id } = request
  return (
    <section aria-label="Request">
      <h3>Request</h3>
      <dl className="facts">
        <dt>Request ID</dt>
        <dd>
          <CopyId id={id} isAlways />
        </dd>
        <dt>Day</dt>
        <dd>{dayOf(request)}</dd>
        {node && (
          <>
            <dt>Node</dt>
            <dd>{node}</dd>
          </>
        )}
        {generation !== null && (
          <>
            <dt>Generation</dt>
            <dd>{count.format(generation)}</dd>
          </>
        )}
        {edge && (
          <>
            <dt>Edge</dt>
            <dd>
              <Link to={`/edges/${edge.id}`}>{names.edge(edge.id)}</Link>
            </dd>
          </>
        )}
        {upstream && (
          <>
            <dt>Upstream</dt>
            <dd className="mono">{upstream}</dd>
          </>
        )}
        {trace_id && (
          <>
            <dt>Trace</dt>
            <dd className="mono">{trace_id}</dd>
          </>
        )}
      </dl>
    </section>
  )
}
