import type { ReactNode } from 'react'
import { Tabs as AriaTabs, Tab, TabList, TabPanel } from 'react-aria-components'
import { useUrlState } from './use_url_state.ts'

type TabOf = { id: string; title: string; count?: number; children: ReactNode }

const number = new Intl.NumberFormat('en')

/** The parts of a page about one thing. The chosen one is in the URL. */
export function Tabs({ label, tabs }: { label: string; tabs: readonly TabOf[] }) {
  const [chosen, choose] = useUrlState('tab', tabs[0]?.id ?? '')
  const isKnown = tabs.some(({ id }) => id === chosen)
  return (
    <AriaTabs
      className="tab-panel"
      selectedKey={isKnown ? chosen : tabs[0]?.id}
      onSelectionChange={(key) => choose(String(key))}
    >
      <TabList className="tabs" aria-label={label}>
        {tabs.map(({ id, title, count }) => (
          <Tab key={id} id={id} className="tab">
            {title} {count !== undefined && <span className="count">{number.format(count)}</span>}
          </Tab>
        ))}
      </TabList>
      {tabs.map(({ id, children }) => (
        <TabPanel key={id} id={id} className="tab-panel">
          {children}
        </TabPanel>
      ))}
    </AriaTabs>
  )
}
