package io.jobwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import org.postgresql.ds.PGSimpleDataSource;

/** Compiles the programs of README.md as they stand there, and runs them. Only the schema is another. */
class ReadmeIT {
    @RegisterExtension
    static final TestDatabase DB = new TestDatabase("100ms", block("toml"));

    @TempDir
    static Path folder;

    private static List<String> blocks(String language) {
        Matcher blocks = Pattern.compile("(?:^|\n)```" + language + "\n(.*?)```", Pattern.DOTALL).matcher(read(Path.of("../README.md")));
        return blocks.results().map(found -> found.group(1)).toList();
    }

    private static String block(String language) {
        assertEquals(1, blocks(language).size(), language);
        return blocks(language).get(0);
    }

    private static Map<String, String> programs() {
        Map<String, String> programs = new LinkedHashMap<>();
        for (String block : blocks("java")) {
            Matcher name = Pattern.compile("public (?:final )?class (\\w+)").matcher(block);
            assertTrue(name.find(), "each block is a whole class");
            programs.put(name.group(1), block);
        }
        return programs;
    }

    private static String inSchema(String program) {
        return program.replace("new Jobs()", "new Jobs(\"" + DB.schema + "\")")
                .replace("new SqlJobs()", "new SqlJobs(\"" + DB.schema + "\", Duration.ofSeconds(30))")
                .replace("JobWorker.on(dataSource, \"billing\")", "JobWorker.on(dataSource, \"billing\").schema(\"" + DB.schema + "\")");
    }

    private Process run(String name, Path output) throws IOException {
        PGSimpleDataSource source = TestDatabase.driver(name);
        source.setCurrentSchema(DB.quoted);
        String url = source.getUrl() + "&user=" + source.getUser() + (source.getPassword() == null ? "" : "&password=" + source.getPassword());
        ProcessBuilder builder = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-XX:+UseSerialGC",
                "-cp", folder + ":" + System.getProperty("java.class.path"), name);
        builder.environment().put("JDBC_URL", url);
        return builder.redirectErrorStream(true).redirectOutput(output.toFile()).start();
    }

    private String finish(String name) throws Exception {
        Path output = folder.resolve(name + ".out");
        Process process = run(name, output);
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), name);
        assertEquals(0, process.exitValue(), () -> read(output));
        return read(output);
    }

    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            return e.toString();
        }
    }

    @Test
    void the_programs_of_the_readme_run() throws Exception {
        List<String> files = new ArrayList<>(List.of("-d", folder.toString(), "-cp", System.getProperty("java.class.path"), "-Xlint:all,-try", "-Werror"));
        for (Map.Entry<String, String> program : programs().entrySet()) {
            Path file = folder.resolve(program.getKey() + ".java");
            Files.writeString(file, inSchema(program.getValue()));
            files.add(file.toString());
        }
        assertEquals(List.of("First", "PlaceOrder", "Invoices", "SpringTransactions", "OneByOne"), List.copyOf(programs().keySet()));
        assertEquals(0, ToolProvider.getSystemJavaCompiler().run(null, System.out, System.err, files.toArray(String[]::new)));

        assertEquals("hello {\"name\": \"Ada\"}\n", finish("First"));
        assertEquals(0L, DB.value("select count(*) from " + DB.in + "jobs"), "the first job is done");
        assertTrue(finish("PlaceOrder").startsWith("sent "));
        assertTrue(finish("OneByOne").startsWith("done "));
        assertEquals(true, DB.value("select invoiced from " + DB.in + "orders where id = 42"));

        DB.update("delete from " + DB.in + "orders");
        Path output = folder.resolve("Invoices.out");
        Process invoices = run("Invoices", output);
        try {
            TestDatabase.await("the worker", () -> read(output).contains("ready"));
            finish("PlaceOrder");
            TestDatabase.await("the invoice", () -> (boolean) DB.value("select invoiced from " + DB.in + "orders where id = 42"));
            invoices.destroy();
            assertTrue(invoices.waitFor(30, TimeUnit.SECONDS), "SIGTERM stops it");
        } finally {
            invoices.destroyForcibly();
        }
    }

    @Test
    void the_adapter_for_spring_is_the_one_that_is_tested() throws Exception {
        String tested = Files.readString(Path.of("src/test/java/io/jobwright/SpringTransactions.java"));
        assertEquals(withoutHead(tested), withoutHead(programs().get("SpringTransactions")));
    }

    private static String withoutHead(String source) {
        return source.substring(source.indexOf("/**"));
    }
}
