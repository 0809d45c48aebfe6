import { useMemo, useState } from 'react'
import { useLocation, useNavigate, useParams } from 'react-router'
import { useMayChange } from '../api/may_change.ts'
import { Problem } from '../api/problem.ts'
import { Button } from '../ui/button.tsx'
import { DataTable } from '../ui/data_table.tsx'
import { Skeleton } from '../ui/loading.tsx'
import type { MenuEntry } from '../ui/menu.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { ProblemNote } from '../ui/problem.tsx'
import { Empty } from '../ui/states.tsx'
import { ActOn, actionWordOf, targetOf } from './traffic/act_on.tsx'
import { columnsOf, rulesToAsk } from './traffic/columns.tsx'
import { Filters } from './traffic/filters.tsx'
import { mostRows, type Request } from './traffic/log.ts'
import { useNames } from './traffic/names.ts'
import { RequestPanel } from './traffic/panel.tsx'
import { LiveState, Notices } from './traffic/state.tsx'
import { useFilter } from './traffic/use_filter.ts'
import { useHold } from './traffic/use_hold.ts'
import { type Traffic as Data, useTraffic } from './traffic/use_traffic.ts'

const count = new Intl.NumberFormat('en')
const idOf = ({ id }: Request): string => id

/** Live requests to all edges on all nodes, and failed or refused ones of the last days. */
export function Traffic() {
  const { id: openId } = useParams()
  const { search } = useLocation()
  const navigate = useNavigate()
  const filter = useFilter()
  const [isPaused, setPaused] = useState(false)
  const hold = useHold()
  const traffic = useTraffic(filter.asked, isPaused || hold.isHeld)
  const names = useNames()
  const mayChange = useMayChange()
  const [acting, setActing] = useState<Request>()
  const { rows } = traffic
  const asked = useStable(useMemo(() => rulesToAsk(rows), [rows]))
  const linkTo = (id: string) => `/traffic/${id}${search}`
  const isOpen = openId !== undefined
  const columns = useMemo(() => {
    const entriesOf = (request: Request): MenuEntry[] => {
      const isRuled = request.outcome === 'refused' || request.outcome === 'warned'
      const ip = encodeURIComponent(request.source_ip ?? '')
      return [
        ...(isRuled && mayChange
          ? [{ label: actionWordOf(request), icon: 'plus' as const, onAction: () => setActing(request) }]
          : []),
        {
          label: 'Check this address',
          icon: 'check',
          onAction: () => navigate(`/check?ip=${ip}&target=${targetOf(request)}`),
        },
        { label: 'Only this address', icon: 'search', onAction: () => navigate(`/traffic?from=${ip}`) },
      ]
    }
    return columnsOf({ names, asked, linkTo: (id) => `/traffic/${id}${search}`, entriesOf, isNarrow: isOpen })
  }, [names, asked, search, isOpen, mayChange, navigate])
  const place = rows.findIndex(({ id }) => id === openId)
  const open = (row: Request | undefined) =>
    row && (() => navigate(linkTo(row.id), { replace: true, preventScrollReset: true }))
  return (
    <>
      <PageHeader
        title="Traffic"
        status={<LiveState state={traffic.state} isPaused={isPaused} />}
        summary="Who asked for what, and which rule decided. All times in UTC."
        tools={
          traffic.state !== 'past' && (
            <Button icon={isPaused ? 'play' : 'pause'} onPress={() => setPaused(!isPaused)}>
              {isPaused ? 'Resume' : 'Pause'}
            </Button>
          )
        }
      />
      <Filters filter={filter} />
      <Notices
        traffic={traffic}
        isHeld={isPaused || hold.isHeld}
        onShow={hold.release}
        onResume={() => setPaused(false)}
      />
      <div className={isOpen ? 'split open' : 'split'}>
        <div className="split-main" {...hold.watch}>
          <Rows traffic={traffic} columns={columns} openId={openId} isFiltered={filter.isFiltered} />
        </div>
        {openId !== undefined && (
          <RequestPanel
            id={openId}
            row={rows[place]}
            names={names}
            onAct={setActing}
            onClose={() => navigate(`/traffic${search}`, { preventScrollReset: true })}
            onPrevious={place > 0 ? open(rows[place - 1]) : undefined}
            onNext={place >= 0 ? open(rows[place + 1]) : undefined}
          />
        )}
      </div>
      {acting && <ActOn request={acting} names={names} onClose={() => setActing(undefined)} />}
    </>
  )
}

/** Returns the same set while its members are equal: a new one renders columns and all rows again. */
function useStable(set: ReadonlySet<string>): ReadonlySet<string> {
  const [kept, setKept] = useState(set)
  const isSame = kept.size === set.size && [...kept].every((each) => set.has(each))
  if (!isSame) setKept(set)
  return isSame ? kept : set
}

type RowsProps = {
  traffic: Data
  columns: ReturnType<typeof columnsOf>
  openId: string | undefined
  isFiltered: boolean
}

function Rows({ traffic, columns, openId, isFiltered }: RowsProps) {
  const { rows, isLoading, problem, state, hasOlder } = traffic
  const [isReading, setReading] = useState(false)
  if (problem instanceof Problem && problem.status === 403 && rows.length === 0)
    return (
      <div className="frame">
        <Empty title="Not for this sign-in">{problem.message}</Empty>
      </div>
    )
  if (problem && rows.length === 0) return <ProblemNote error={problem} retry={traffic.readAgain} />
  if (rows.length === 0 && isLoading) return <Skeleton lines={10} />
  if (rows.length === 0)
    return (
      <div className="frame">
        <Empty title={isFiltered ? 'No matching requests' : 'No requests yet'}>
          {state === 'past'
            ? 'Nothing was refused, warned about, limited or failed at that time.'
            : 'Requests to your edges appear here as they happen. Refused, warned, limited and failed ones stay for 7 days.'}
        </Empty>
      </div>
    )
  return (
    <DataTable
      label="Requests"
      rows={rows}
      keyOf={idOf}
      columns={columns}
      isTwoLine
      rowClass={({ id }) => (id === openId ? 'chosen' : undefined)}
      foot={
        <>
          <span>
            Refused, warned, limited and failed requests are kept for 7 days by default. Allowed ones are shown while
            this page is live. {rows.length >= mostRows && `Only the newest ${count.format(mostRows)} are shown.`}
          </span>
          {hasOlder && (
            <Button
              isSmall
              isPending={isReading}
              onPress={() => {
                setReading(true)
                traffic.readOlder().finally(() => setReading(false))
              }}
            >
              Show older requests
            </Button>
          )}
        </>
      }
    />
  )
}
