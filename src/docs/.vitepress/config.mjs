// The site of the pages in src/docs and of the reference of the C++ interface. `src/docs/build` builds it.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, posix, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')

const title = page => readFileSync(join(root, page), 'utf8').match(/^# (.*)$/m)?.[1].replaceAll('`', '') ?? page

// The pages of a folder, and the indexes of its subfolders, which have sidebars of their own.
function items(folder) {
  const entries = readdirSync(join(root, folder), { withFileTypes: true }).sort((a, b) => a.name < b.name ? -1 : 1)
  const pages = entries.filter(e => e.name.endsWith('.md') && e.name !== 'index.md').map(e => ({
    text: title(`${folder}/${e.name}`), link: `/${folder}/${e.name.slice(0, -3)}` }))
  const folders = subfolders(folder).map(name => ({ ...group(name), items: undefined }))
  return [...pages, ...folders]
}

const subfolders = folder => readdirSync(join(root, folder), { withFileTypes: true })
  .filter(e => e.isDirectory()).map(e => `${folder}/${e.name}`)

function group(folder) {
  const index = `${folder}/index.md`
  return {
    text: existsSync(join(root, index)) ? title(index) : posix.basename(folder),
    link: existsSync(join(root, index)) ? `/${folder}/` : undefined,
    items: items(folder) }
}

const sections = ['tutorial', 'how-to', 'reference', 'explanation'].filter(folder => existsSync(join(root, folder)))

// Links to files of the repository outside src/docs become plain text: the site does not have these files.
function withoutLinksOutside(md) {
  md.core.ruler.push('links_outside', ({ tokens, env }) => {
    const outside = href => href && !/^([a-z]+:|#|\/)/.test(href) &&
      posix.join(posix.dirname(env.relativePath ?? ''), href).startsWith('..')
    for (const { children } of tokens.filter(token => token.type === 'inline'))
      for (let i = 0; i < children.length; ++i)
        if (children[i].type === 'link_open' && outside(children[i].attrGet('href'))) {
          const end = children.findIndex((token, at) => at > i && token.type === 'link_close')
          children.splice(end, 1)
          children.splice(i--, 1)
        }
  })
}

// Vue would take two braces in text or inline code for an expression.
function withoutExpressions(md) {
  const plain = text => md.utils.escapeHtml(text).replaceAll('{', '&#123;')
  md.renderer.rules.text = (tokens, at) => plain(tokens[at].content)
  md.renderer.rules.code_inline = (tokens, at) => `<code>${plain(tokens[at].content)}</code>`
}

export default defineConfig({
  title: 'weir',
  description: 'Asynchronous limiters for Boost.Asio, and a reverse proxy with limits',
  lang: 'en',
  srcExclude: ['**/node_modules/**'],
  markdown: { config: md => { withoutLinksOutside(md); withoutExpressions(md) } },
  themeConfig: {
    search: { provider: 'local' },
    nav: sections.map(folder => ({ text: group(folder).text, link: group(folder).link ?? items(folder)[0]?.link ?? '/' })),
    sidebar: Object.fromEntries([
      ...sections.flatMap(subfolders).map(folder => [`/${folder}/`, [group(folder)]]),
      ['/', sections.map(group)]]),
    outline: [2, 3],
  },
})
