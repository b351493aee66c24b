//! The sources that one handler may import: the files of its own folder, those of `_shared/`, and the built-in types of errors.
//! Nothing else exists for an import.

use crate::code::{Code, Gathered, written};
use crate::typescript::{self, Unstripped};
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Error, Module};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// The module that exports `ErrorType`, `IntentType` and `ToolError`.
const ERROR_TYPES: &str = "_core/error-types.js";
const ERROR_TYPES_SOURCE: &str = include_str!("js/error-types.js");
const SHARED: &str = "_shared/";

/// Paths from the folder of the tools, as in `lookup-order/handler.js`, each with its source as its author wrote it.
pub type Modules = BTreeMap<String, Arc<str>>;

/// Resolves an import to a path. `Err` says why the import has no path.
fn resolve(modules: &Modules, base: &str, specifier: &str) -> Result<String, String> {
    if !specifier.starts_with("./") && !specifier.starts_with("../") {
        return Err(
            "there are no packages and no modules of Node here; import files of the tool's folder or of ../_shared/, \
             or write the tool as a `handler.json` of kind `process`"
                .to_owned(),
        );
    }
    let mut parts: Vec<&str> = base.split('/').collect();
    parts.pop();
    for part in specifier.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                if parts.pop().is_none() {
                    return Err("it leads out of the folder of the tools".to_owned());
                }
            }
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    if path == ERROR_TYPES || path == "error-types.js" {
        return Ok(ERROR_TYPES.to_owned());
    }
    let folder = base.split('/').next().unwrap_or_default();
    if !path.starts_with(SHARED) && !path.starts_with(&format!("{folder}/")) {
        return Err("a tool imports files of its own folder and of ../_shared/ only".to_owned());
    }
    if modules.contains_key(&path) {
        return Ok(path);
    }
    // TypeScript imports a file by its name with `.js`.
    let typed = path.strip_suffix(".js").map(|name| format!("{name}.ts"));
    match typed.filter(|typed| modules.contains_key(typed)) {
        Some(typed) => Ok(typed),
        None => Err(format!("there is no file {path}")),
    }
}

/// The sources of the call that a context serves, once the call is known, and the modules that were imported.
#[derive(Clone, Default)]
pub(crate) struct Imports(Rc<RefCell<Open>>);

#[derive(Default)]
struct Open {
    modules: Arc<Modules>,
    /// Code of the modules that were read before.
    code: Code,
    used: BTreeSet<String>,
    gathered: Option<Gathered>,
    /// The last failed import: the importing file, the specifier, and the cause.
    failed: Option<FailedImport>,
    /// A file whose types could not be taken out.
    unstripped: Option<(String, Unstripped)>,
}

#[derive(Clone, Debug)]
pub(crate) struct FailedImport {
    pub(crate) base: String,
    pub(crate) specifier: String,
    pub(crate) cause: String,
}

impl Imports {
    pub(crate) fn open(&self, modules: Arc<Modules>, code: Code) {
        let mut open = self.0.borrow_mut();
        (open.modules, open.code) = (modules, code);
    }

    /// Keeps the code of every module that is imported from now on.
    pub(crate) fn gather(&self) {
        self.0.borrow_mut().gathered = Some(Gathered::new());
    }

    pub(crate) fn keep(&self, name: &str, module: &Module<'_, Declared>) {
        if let Some(gathered) = &mut self.0.borrow_mut().gathered
            && let Ok(code) = written(module)
        {
            gathered.insert(name.to_owned(), code);
        }
    }

    pub(crate) fn gathered(&self) -> Gathered {
        self.0.borrow_mut().gathered.take().unwrap_or_default()
    }

    /// A module, not yet evaluated.
    pub(crate) fn module<'js>(
        &self,
        ctx: &Ctx<'js>,
        path: &str,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        let code = self.0.borrow().code;
        if let Some(module) = code.module(ctx, path) {
            return module;
        }
        let source = self.source(path).ok_or_else(|| Error::new_loading(path))?;
        let module = Module::declare(ctx.clone(), path, source)?;
        self.keep(path, &module);
        Ok(module)
    }

    pub(crate) fn used(&self) -> BTreeSet<String> {
        self.0.borrow().used.clone()
    }

    pub(crate) fn unstripped(&self) -> Option<(String, Unstripped)> {
        self.0.borrow().unstripped.clone()
    }

    pub(crate) fn failed(&self) -> Option<FailedImport> {
        self.0.borrow().failed.clone()
    }

    /// A module's text as the engine takes it.
    fn source(&self, path: &str) -> Option<Vec<u8>> {
        let mut open = self.0.borrow_mut();
        if path == ERROR_TYPES {
            return Some(ERROR_TYPES_SOURCE.into());
        }
        let source = open.modules.get(path)?.clone();
        open.used.insert(path.to_owned());
        if typescript::is_typescript(path) {
            let stripped = typescript::strip(&source);
            return stripped
                .map_err(|unstripped| open.unstripped = Some((path.to_owned(), unstripped)))
                .map(String::into_bytes)
                .ok();
        }
        Some(match path.ends_with(".json") {
            true => format!("export default (\n{source}\n);").into(),
            false => source.as_bytes().to_vec(),
        })
    }
}

impl Resolver for Imports {
    fn resolve<'js>(
        &mut self,
        _: &Ctx<'js>,
        base: &str,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        let resolved = resolve(&self.0.borrow().modules, base, name);
        resolved.map_err(|cause| {
            self.0.borrow_mut().failed = Some(FailedImport {
                base: base.to_owned(),
                specifier: name.to_owned(),
                cause: cause.clone(),
            });
            Error::new_resolving_message(base, name, cause)
        })
    }
}

impl Loader for Imports {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        self.module(ctx, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_means_a_file_of_the_tool_or_a_shared_one() {
        let modules: Modules = [
            "a/handler.js",
            "a/lib/x.js",
            "a/types.ts",
            "_shared/z.js",
            "b/w.js",
        ]
        .into_iter()
        .map(|path| (path.to_owned(), "".into()))
        .collect();
        for (base, specifier, path) in [
            ("a/handler.js", "./lib/x.js", Some("a/lib/x.js")),
            ("a/lib/x.js", "../handler.js", Some("a/handler.js")),
            ("a/handler.js", "../_shared/z.js", Some("_shared/z.js")),
            ("_shared/z.js", "../_core/error-types.js", Some(ERROR_TYPES)),
            ("a/handler.js", "../error-types.js", Some(ERROR_TYPES)),
            ("a/handler.js", "./types.js", Some("a/types.ts")),
            ("a/handler.js", "./types.ts", Some("a/types.ts")),
            ("a/handler.js", "../b/w.js", None),
            ("a/handler.js", "../../etc/passwd", None),
            ("a/handler.js", "./none.js", None),
            ("a/handler.js", "fs", None),
            ("a/handler.js", "/a/handler.js", None),
            ("a/handler.js", "https://example.org/x.js", None),
        ] {
            let found = resolve(&modules, base, specifier);
            assert_eq!(found.ok().as_deref(), path, "{specifier} in {base}");
        }
    }
}
